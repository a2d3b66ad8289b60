"""The storm over three brokers, with records deleted now and then: nothing else is missing.

Every deletion is noted before it is sent, whatever its answer: from then on the records below its
offset may be there or not. All others must be where they were, on every leader at every moment. In
the end all replicas let go of everything that was asked for.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.unit.replication.test_replicas_random import KEY, NODES, STORM_CONFIG, Storm, Violation

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.log.log import Log
from tidelog.replication.leader import LeaderState
from tidelog.replication.messages import DeletedRecords, RecordsToDelete
from tidelog.sim.replicas.reading import Written, records_of

ONCE_STUCK = (1029, 1030, 1071, 1109)
"""A deposed leader had to cut where the leader's log starts, in the middle of a batch."""


def served(log: Log, upto: int | None = None) -> list[Written]:
    """The records from the log start on; the batch that holds it begins earlier, maybe."""
    found = records_of(log, upto)
    return [record for record in found if record.offset >= log.log_start_offset]


class DeletingStorm(Storm):
    """One seed's run."""

    config = replace(STORM_CONFIG, recovery_point_checkpoint_interval_ms=100)

    def __init__(self, seed: int, *, power_cuts: bool = False) -> None:
        # Of its own, so that the storm is that of the seed.
        self.deletions = Prng(seed + 1_000_000)
        # Below it records may be missing.
        self.asked = 0
        # What each request asked for, by its name.
        self.wanted: dict[str, int] = {}
        # Deletions that were answered well, and segments that went.
        self.done = self.segments_gone = 0
        super().__init__(seed, power_cuts=power_cuts)
        self.feed.configure("orders", "segment.bytes", "200")

    def step(self) -> None:
        """As ever, and maybe a deletion."""
        super().step()
        leaders = [n for n in NODES if self.cluster.brokers[n].running and self.leads(n)]
        if leaders and self.deletions.chance(1, 5):
            self.delete(self.deletions.choice(leaders))
            self.run(10)

    def delete(self, node: int, offset: int = -1) -> str:
        """At a node that takes itself for the leader; up to somewhere, or all that is committed."""
        log = self.cluster.brokers[node].log("orders")
        if offset < 0:
            offset = self.deletions.between(0, log.high_watermark)
        self.asked = max(self.asked, offset)
        name = f"d{len(self.wanted)}"
        self.wanted[name] = offset
        self.cluster.brokers[node].replicas.delete_records(
            [RecordsToDelete(*KEY, offset)], name, self.cluster.now, timeout_ms=500
        )
        return name

    def watch_leader(self, node: int, log: Log) -> None:
        """Every record at or above the log start is the one that was committed there."""
        if log.log_start_offset > self.asked:
            raise Violation(f"b{node} starts at {log.log_start_offset}, asked was {self.asked}")
        self.segments_gone += log.segments[0].base_offset > 0
        start = log.log_start_offset
        known = self.committed[start:]
        shown = served(log, log.high_watermark)
        if shown[: len(known)] != known[: len(shown)]:
            raise Violation(f"b{node} shows {shown}, committed was {known} from {start} on")
        self.committed += shown[len(known) :]
        newest = self.feed.partition("orders")
        if newest.leader == node and newest.leader_epoch == log.latest_epoch:
            held = served(log)
            if held[: len(known)] != known:
                raise Violation(f"LeaderCompleteness: b{node} holds {held} of {known}")

    def start(self, node: int) -> None:
        """Nothing that was deleted is taken for damage."""
        super().start(node)
        damaged = self.cluster.brokers[node].directory.damaged
        if damaged:
            raise Violation(f"NoFalseDamage: b{node} {damaged}")

    def watch(self) -> None:
        """And the answers of deletions: all who were alive had let go."""
        super().watch()
        for name, offset in self.wanted.items():
            results: list[DeletedRecords] = self.cluster.replies.pop(name, [])
            for result in results:
                self.done += result.error_code is ErrorCode.NONE
                reached = result.low_watermark >= offset
                if (result.error_code is ErrorCode.NONE) != reached:
                    raise Violation(f"a deletion below {offset} was answered with {result}")

    def verify(self) -> None:
        """All let go of all that was asked for, and have everything else."""
        self.delete(self.feed.partition("orders").leader, self.asked)
        self.run(300)
        for node in NODES:
            log = self.cluster.brokers[node].log("orders")
            held, start = served(log), log.log_start_offset
            if start != self.asked or held != self.committed[start:]:
                raise Violation(f"b{node} holds {held} from {start}, not {self.asked} on")


@pytest.mark.parametrize("seeds", [range(40), range(40, 80), ONCE_STUCK])
def test_nothing_but_what_was_asked_for_is_gone(seeds: Sequence[int]) -> None:
    """Kills, power cuts, stalls and elections between a request and the last deleted file."""
    done = gone = 0
    for seed in seeds:
        storm = DeletingStorm(seed, power_cuts=seed % 2 == 0 or seeds is ONCE_STUCK)
        storm.storm()
        done += storm.done
        gone += storm.segments_gone
    assert done > 2 * len(seeds) and gone, "the runs deleted next to nothing"


def test_the_storm_notices_an_answer_that_comes_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that asks no other replica answers well though others have the records."""
    monkeypatch.setattr(
        LeaderState, "low_watermark", property(lambda self: self.log.log_start_offset)
    )
    with pytest.raises(Violation, match="too early"):
        for seed in range(40):
            EarlyStorm(seed).storm()


class EarlyStorm(DeletingStorm):
    """Looks at the followers themselves when an answer comes."""

    def watch(self) -> None:
        """Every node that is unfenced and runs must have let go."""
        good = [
            self.wanted[name]
            for name in self.wanted
            for result in self.cluster.replies.get(name, ())
            if result.error_code is ErrorCode.NONE
        ]
        super().watch()
        for node in NODES:
            broker = self.cluster.brokers[node]
            registered = self.feed.image.brokers.get(node)
            if good and broker.running and registered is not None and not registered.fenced:
                log = broker.directory.logs.get(KEY)
                if log is not None and log.log_start_offset < max(good):
                    raise Violation(f"too early: b{node} starts at {log.log_start_offset}")
