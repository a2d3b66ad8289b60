"""A member that consumes, transforms and produces: it copies a topic, exactly once.

Each transaction has the next records of some of its partitions, written to the partitions of the
same number of another topic, and the offsets behind them, committed for the group (KIP-447). The
value of a copy begins with the offset of its original. Sometimes a copier takes longer than its
session lasts, before it commits the offsets or after: then another member has its partitions by the
time it goes on. One that cannot know what became of a transaction asks for its producer again, and
then where to go on.
"""

from collections.abc import Callable

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.sim.evidence.group_progress import GroupProgress, SentCommit
from tidelog.sim.workloads.classic_member import OUT, ClassicMember, Found
from tidelog.sim.workloads.cluster_view import COPY_TOPIC, SOURCE_TOPIC, ClusterView
from tidelog.sim.workloads.script import Steps
from tidelog.sim.workloads.transaction_script import Committer, Identity, TransactionalProducer


class Copier(ClassicMember):
    """One member with a transactional id of its own."""

    def __init__(
        self, view: ClusterView, prng: Prng, progress: GroupProgress, is_over: Callable[[], bool]
    ) -> None:
        super().__init__(view, prng, progress, is_over)
        self._producer = TransactionalProducer(self._client, COPY_TOPIC, prng)
        # Who writes the next transaction; `None` when that must be asked.
        self._identity: Identity | None = None
        # Commits of a transaction of which it does not know what became.
        self._unknown: list[SentCommit] = []

    def _next_process(self) -> None:
        super()._next_process()
        self._identity = None

    def _is_ready(self) -> Steps[bool]:
        if self._identity is None:
            self._positions = dict.fromkeys(self._positions)
            self._identity = yield from self._producer.begin()
            if self._identity is not None:
                # It has ended, one way or the other: where to go on says which.
                while self._unknown:
                    self._progress.refuse(self._unknown.pop())
        return self._identity is not None

    def _work(self) -> Steps[None]:
        taken: dict[int, Found] = {}
        for number, position in list(self._positions.items()):
            assert position is not None, f"{number} has no position"
            found = yield from self._read(number, position)
            if found:
                taken[number] = found
        identity = self._identity
        if not taken or identity is None:
            return
        generation = self._generation
        # Until it is known what became of it.
        self._identity = None
        successor = yield from self._copy(identity, taken)
        if generation == self._generation:
            self._identity = successor

    def _copy(self, identity: Identity, taken: dict[int, Found]) -> Steps[Identity | None]:
        """One transaction; who writes the next one."""
        producer = self._producer
        if not (yield from producer.add(identity, taken)):
            return None
        for number, found in taken.items():
            values = [f"{offset}:{value}" for offset, value in found]
            if not (yield from producer.produce(identity, number, values)):
                return None
        yield from self._rest()
        offsets = {number: found[-1][0] + 1 for number, found in taken.items()}
        sent = [
            self._progress.send(number, offset, self._generation)
            for number, offset in offsets.items()
        ]
        self._unknown += sent
        who = Committer(self._progress.group, self._generation, self._member_id, self._instance_id)
        code = yield from producer.commit_offsets(identity, who, SOURCE_TOPIC, offsets)
        if code is not ErrorCode.NONE:
            if code in OUT:
                self._leave_generation(code)
            return None
        for each in sent:
            self._progress.must_be_present(each)
        yield from self._rest()
        is_commit = not self._now_and_then(8)
        ended = yield from producer.end(identity, is_commit=is_commit)
        if ended.code is ErrorCode.NONE and is_commit:
            for each in sent:
                self._progress.acknowledge(each)
            self._positions |= offsets
        return ended.successor
