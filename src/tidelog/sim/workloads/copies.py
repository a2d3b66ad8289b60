"""Consume, transform, produce: a topic, a group that copies it in transactions, one that reads it.

Both groups are of the classic protocol and read the same topic (`SOURCE_TOPIC`), which a feeder
writes. The one copies it (`copier.py`), the other commits without transactions
(`classic_member.py`). What is checked on the way is in `evidence/group_progress.py`, and of the
copies, as a reader with `read_committed` sees them:

- CopiedExactlyOnce: each partition has the copies of its originals in order, none of them twice and
  none left out. In the end it has those up to the committed offset of the group, and no others.

In the end both groups have everything, whatever happened: members that wait for each other, or a
transaction that hangs, keep a run from coming to rest.
"""

from collections.abc import Callable, Sequence
from typing import Final

from tidelog.env.prng import Prng
from tidelog.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.sim.engine.formation import WALL_START_MS
from tidelog.sim.evidence.group_progress import GroupProgress
from tidelog.sim.report.violation import Violation
from tidelog.sim.workloads.admin import Admin
from tidelog.sim.workloads.classic_member import (
    PARTITIONS,
    ClassicMember,
    Reader,
    committed_offsets,
)
from tidelog.sim.workloads.cluster_view import COPY_TOPIC, SOURCE_TOPIC, ClusterView
from tidelog.sim.workloads.committed_reader import CommittedReader
from tidelog.sim.workloads.copier import Copier
from tidelog.sim.workloads.script import GROUP, PAUSE_MS, ScriptedClient, Steps
from tidelog.sim.workloads.transaction_script import produce_request, produced_code

COPIERS: Final = "copiers"
READERS: Final = "readers"
FEED_MS: Final = 200
PRODUCE_VERSION: Final = 11


class SourceReader(CommittedReader):
    """Reads the originals: how many there are, and what they say."""

    def __init__(self, view: ClusterView, prng: Prng, is_fed: Callable[[], bool]) -> None:
        super().__init__(view, prng, SOURCE_TOPIC, PARTITIONS)
        self._is_fed = is_fed
        # By partition, in order of their offsets.
        self.values: dict[int, list[str]] = {number: [] for number in range(PARTITIONS)}

    @property
    def _writes(self) -> str | None:
        return None if self._is_fed() else "originals are being written"

    def _see(self, number: int, offset: int, value: str) -> None:
        assert offset == len(self.values[number]), f"{number} has a hole before {offset}"
        self.values[number].append(value)


class CopyReader(CommittedReader):
    """Reads the copies."""

    def __init__(self, view: ClusterView, prng: Prng, is_copied: Callable[[], bool]) -> None:
        super().__init__(view, prng, COPY_TOPIC, PARTITIONS)
        self._is_copied = is_copied
        # By partition, in order of their originals' offsets.
        self.values: dict[int, list[str]] = {number: [] for number in range(PARTITIONS)}

    @property
    def _writes(self) -> str | None:
        return None if self._is_copied() else "copies are being written"

    def _see(self, number: int, offset: int, value: str) -> None:
        original, text = value.split(":", 1)
        expected = len(self.values[number])
        if int(original) != expected:
            raise Violation(
                "CopiedExactlyOnce",
                f"{COPY_TOPIC}-{number} has at {offset} the copy of {original}, not of {expected}",
            )
        self.values[number].append(text)


class Copies:
    """Everyone who has to do with the copies."""

    def __init__(
        self,
        view: ClusterView,
        checking: ClusterView,
        admin: Admin,
        copiers: Sequence[ClusterView],
        readers: Sequence[ClusterView],
        prng: Prng,
        *,
        flushed: bool,
    ) -> None:
        """`view` is of those who are no members, but for the readers of all that is written: they
        are `checking`, because a fetch that waits holds up its connection."""
        self._admin = admin
        self._prng = prng
        # Whether all topics are to survive power cuts of all replicas.
        self._flushed = flushed
        self._stopped = False
        # Whether the topics exist, and everyone has begun; and whether nothing more is fed.
        self._has_begun = self._is_fed = False
        # Whether both groups have had everything: members have nothing left to do.
        self._is_over = False
        self._fed_count = 0
        self._copying, self._reading = GroupProgress(COPIERS), GroupProgress(READERS)
        self._feeder = ScriptedClient(view, prng, {GROUP: COPIERS})
        self._groups = {
            progress: ScriptedClient(view, prng, {GROUP: progress.group})
            for progress, members in ((self._copying, copiers), (self._reading, readers))
            if members
        }

        def is_over() -> bool:
            return self._is_over

        self._members: list[ClassicMember] = [
            *(Copier(each, Prng(prng.next_u64()), self._copying, is_over) for each in copiers),
            *(Reader(each, Prng(prng.next_u64()), self._reading, is_over) for each in readers),
        ]
        self._source = SourceReader(checking, prng, lambda: self._is_fed)
        self._copies = CopyReader(checking, prng, lambda: self._has_ended)
        # What the groups have in the end, by group and partition.
        self._final: dict[GroupProgress, dict[int, int]] = {}

    def start(self) -> None:
        """Creates the topics as this run needs them, then lets everyone go."""
        if self._members:
            self._feeder.run(self._feed())

    def stop(self) -> None:
        """Feeds no more; members go on until they have everything."""
        self._stopped = True
        for each in self._members:
            each.stop()

    def _feed(self) -> Steps[None]:
        flushed = {"flush.messages": "1"} if self._flushed else {}
        compacted = {"cleanup.policy": "compact"} | flushed
        topics = {
            TRANSACTIONS_TOPIC: compacted,
            OFFSETS_TOPIC: compacted,
            SOURCE_TOPIC: flushed,
            COPY_TOPIC: flushed,
        }
        yield from self._feeder.create_topics(
            self._admin, PARTITIONS, topics, lambda: self._stopped
        )
        if not self._begin():
            return
        while not self._stopped:
            yield from self._feed_batch()
            yield self._prng.between(FEED_MS // 4, FEED_MS * 2)
        self._is_fed = True
        yield from self._watch()

    def _begin(self) -> bool:
        """The topics are there: everyone begins, unless the run has come to its end."""
        if self._stopped:
            return False
        self._has_begun = True
        self._source.start()
        self._copies.start()
        for each in self._members:
            each.start()
        return True

    def _feed_batch(self) -> Steps[None]:
        """One batch, of values that are there at most twice: an attempt without an answer may have
        been written."""
        timestamp = WALL_START_MS + self._feeder.view.world.now
        values = [f"v{self._fed_count + index}" for index in range(self._prng.between(1, 3))]
        self._fed_count += len(values)
        records = build_batch([Record(timestamp, None, value.encode()) for value in values])
        number = self._prng.below(PARTITIONS)
        wanted = produce_request(SOURCE_TOPIC, number, records, version=PRODUCE_VERSION, name=None)
        yield from self._feeder.insist_on_leader(SOURCE_TOPIC, number, wanted, produced_code)

    def _watch(self) -> Steps[None]:
        """Ends the members when the groups have everything, and asks what they have."""
        while not self._have_everything:
            yield PAUSE_MS
        self._is_over = True
        while not all(each.is_settled for each in self._members):
            yield PAUSE_MS
        for progress, client in self._groups.items():
            found = self._final.setdefault(progress, {})
            while len(found) < PARTITIONS:
                found |= yield from committed_offsets(client, progress, range(PARTITIONS))
                yield PAUSE_MS

    @property
    def _have_everything(self) -> bool:
        """Whether both groups have committed all originals."""
        return not self._source.unread and all(
            progress.committed(number) == position
            for progress in self._groups
            for number, position in self._source.positions.items()
            if position
        )

    @property
    def _has_ended(self) -> bool:
        """Whether everyone has come to their end."""
        return len(self._final) == len(self._groups) and all(
            len(found) == PARTITIONS for found in self._final.values()
        )

    @property
    def copied_count(self) -> int:
        """How many copies a reader has seen."""
        return sum(map(len, self._copies.values.values()))

    @property
    def unsettled(self) -> list[str]:
        """What is still to come, for messages."""
        if not self._has_begun:
            return []
        if not self._is_fed:
            return ["originals are being written"]
        behind = [
            f"{progress.group} have {progress.committed(number)} of {position} of {number}"
            for progress in self._groups
            for number, position in self._source.positions.items()
            if not self._is_over and progress.committed(number) != position
        ]
        return [*self._source.unread, *behind, *self._copies.unread]

    def judge(self) -> None:
        """At the end, when all is read."""
        if not self._has_begun:
            return
        for progress, offsets in self._final.items():
            for number, offset in offsets.items():
                progress.on_committed(number, offset)
        for number, offset in self._final.get(self._copying, {}).items():
            copied, originals = self._copies.values[number], self._source.values[number]
            if copied != originals[: max(offset, 0)]:
                raise Violation(
                    "CopiedExactlyOnce",
                    f"{COPY_TOPIC}-{number} has {len(copied)} copies, {offset} is committed",
                )
