"""Each checker of the cluster tier: evidence that it must reject, and the nearest that is fine."""

from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest

from tidelog.config import LogConfig
from tidelog.metadata.image import MetadataImage, PartitionImage, TopicImage
from tidelog.model import LOST_DIRECTORY, ZERO_UUID, TopicId
from tidelog.sim.checkers.base import Evidence
from tidelog.sim.checkers.image_is_fold_of_log import ImageIsFoldOfLog
from tidelog.sim.checkers.leaders import LeaderCompleteness, OneLeaderPerEpoch
from tidelog.sim.checkers.readings import (
    HistoryIsALog,
    NoDuplicates,
    NothingLost,
    ProducerOrder,
    RepeatableRead,
)
from tidelog.sim.checkers.replicas import AcknowledgedIsCommitted, NoFalseDamage, NoFalseLoss
from tidelog.sim.engine.world import World
from tidelog.sim.evidence.history import History, Key, Outcome, Polled, Sent
from tidelog.sim.evidence.oracle import BatchMark, Oracle, PartitionId, TrueLog
from tidelog.sim.report.violation import Violation

PID = PartitionId(TopicId(b"\x01\x02\x03" + bytes(13)), "t", 0)
K = Key("t.010203", 0)


def evidence(*final: tuple[int, str]) -> Evidence:
    """An empty run that ends with this log."""
    found = Evidence(World(1), Oracle(), History())
    found.final = {K: tuple(Polled(*one) for one in final)}
    return found


def acknowledge(found: Evidence, offset: int, value: str, outcome: Outcome = Outcome.OK) -> None:
    found.history.send("p", outcome, [Sent(K, offset, value)], invoked_at=1, completed_at=2)


def poll(found: Evidence, offset: int, value: str) -> None:
    found.history.poll("c", {K: (Polled(offset, value),)}, invoked_at=3, completed_at=4)


def rejects(name: str):
    return pytest.raises(Violation, match=f"^{name}: ")


def test_nothing_lost():
    found = evidence((0, "p:1"))
    acknowledge(found, 0, "p:1")
    NothingLost().at_end(found)
    acknowledge(found, -1, "p:2", Outcome.INFO)
    NothingLost().at_end(found)
    acknowledge(found, 1, "p:3")
    with rejects("NothingLost"):
        NothingLost().at_end(found)
    found.history.abandoned.add(K.topic)
    NothingLost().at_end(found)


def test_nothing_lost_looks_at_offsets():
    found = evidence((0, "p:1"))
    acknowledge(found, 5, "p:1")
    with rejects("NothingLost"):
        NothingLost().at_end(found)


def test_repeatable_read():
    found = evidence((0, "p:1"), (1, "p:2"))
    poll(found, 1, "p:2")
    RepeatableRead().at_end(found)
    poll(found, 0, "p:9")
    with rejects("RepeatableRead"):
        RepeatableRead().at_end(found)


def test_repeatable_read_of_what_is_gone():
    found = evidence((0, "p:1"))
    poll(found, 1, "p:2")
    with rejects("RepeatableRead"):
        RepeatableRead().at_end(found)


def test_repeatable_read_of_what_came_later():
    found = evidence((0, "p:1"))
    poll(found, 1, "p:2")
    found.final_at = found.history.ops[-1].completed_at - 1
    # There was no later reading.
    RepeatableRead().at_end(found)
    found.after_restart = {K: (Polled(0, "p:1"), Polled(1, "p:2"))}
    RepeatableRead().at_end(found)
    found.after_restart = {K: (Polled(0, "p:1"),)}
    with rejects("RepeatableRead"):
        RepeatableRead().at_end(found)


def test_no_duplicates():
    NoDuplicates().at_end(evidence((0, "p:1"), (1, "p:2")))
    with rejects("NoDuplicates"):
        NoDuplicates().at_end(evidence((0, "p:1"), (1, "p:2"), (2, "p:1")))


def test_producer_order():
    """An idempotent producer's order holds over all connections."""
    fine = evidence((0, "p:1"), (1, "q:7"), (2, "p:4"), (3, "q:9"))
    for offset, value in fine.final[K]:
        acknowledge(fine, offset, value)
    ProducerOrder().at_end(fine)
    bad = evidence((0, "p:2"), (1, "q:7"), (2, "p:1"))
    for offset, value in bad.final[K]:
        acknowledge(bad, offset, value)
    with rejects("ProducerOrder"):
        ProducerOrder().at_end(bad)


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.INFO])
def test_producer_order_on_one_connection(outcome):
    """A plain producer's records are in order as far as one connection carried them, also those
    without an acknowledgement."""

    def ends_with(*values: tuple[str, int]) -> Evidence:
        found = evidence(*((offset, value) for offset, (value, _) in enumerate(values)))
        for offset, (value, connection) in enumerate(values):
            sent = [Sent(K, offset if outcome is Outcome.OK else -1, value)]
            found.history.send(
                "p", outcome, sent, invoked_at=1, completed_at=2, connection=connection
            )
        return found

    ProducerOrder().at_end(ends_with(("p:1", -1), ("p:4", -2), ("p:3", -1), ("p:5", -2)))
    with rejects("ProducerOrder"):
        ProducerOrder().at_end(ends_with(("p:1", -1), ("p:4", -2), ("p:3", -2)))


def test_history_is_a_log():
    found = evidence((0, "p:1"), (1, "p:2"))
    acknowledge(found, 0, "p:1")
    acknowledge(found, 1, "p:2")
    HistoryIsALog().at_end(found)
    poll(found, 1, "p:1")
    with rejects("HistoryIsALog"):
        HistoryIsALog().at_end(found)
    found.history.abandoned.add(K.topic)
    HistoryIsALog().at_end(found)


def test_acknowledged_is_committed():
    found = evidence()
    found.oracle.logs[PID] = TrueLog([BatchMark(0, 4, 0, 1)], 5)
    checker = AcknowledgedIsCommitted()
    acknowledge(found, 4, "p:1")
    acknowledge(found, 9, "p:2", Outcome.INFO)
    checker.sweep(found)
    acknowledge(found, 5, "p:3")
    with rejects("AcknowledgedIsCommitted"):
        checker.sweep(found)


# Of leaders and images ------------------------------------------------------------------------


@dataclass
class FakeLog:
    """Batches, one record each, as a log has them."""

    marks: list[BatchMark]
    log_start_offset: int = 0
    reads: int = field(default=0)
    cleaned_to: int = -1
    config: LogConfig = field(default_factory=LogConfig)

    @property
    def log_end_offset(self) -> int:
        return self.marks[-1].last_offset + 1 if self.marks else 0


def leader(epoch: int, marks: list[BatchMark]) -> SimpleNamespace:
    return SimpleNamespace(leader_epoch=epoch, log=FakeLog(marks))


HOST = SimpleNamespace(node_id=1, name="host1", all_sound=True)
OTHER = SimpleNamespace(node_id=2, name="host2", all_sound=True)
TRUE = [BatchMark(0, 0, 0, 11), BatchMark(1, 1, 0, 12)]


@pytest.fixture(autouse=True)
def read_fake_logs(monkeypatch):
    monkeypatch.setattr(
        "tidelog.sim.checkers.leaders.marks_of",
        lambda log, start, end: [mark for mark in log.marks if start <= mark.base_offset < end],
    )


def test_leader_completeness():
    found = evidence()
    found.oracle.logs[PID] = TrueLog(list(TRUE), 2)
    longer = [*TRUE, BatchMark(2, 2, 1, 13)]
    checker = LeaderCompleteness()
    checker.on_leader(found, HOST, PID, leader(1, longer))
    with rejects("LeaderCompleteness"):
        checker.on_leader(found, HOST, PID, leader(2, TRUE[:1]))
    with rejects("LeaderCompleteness"):
        checker.on_leader(found, HOST, PID, leader(3, [TRUE[0], BatchMark(1, 1, 1, 12)]))
    with rejects("LeaderCompleteness"):
        checker.on_leader(found, HOST, PID, leader(4, [TRUE[0], BatchMark(1, 1, 0, 99)]))


def test_a_deposed_leader_is_not_looked_at():
    found = evidence()
    found.oracle.logs[PID] = TrueLog(list(TRUE), 2)
    checker = LeaderCompleteness()
    checker.on_leader(found, HOST, PID, leader(5, TRUE))
    checker.on_leader(found, OTHER, PID, leader(4, []))


def test_one_leader_per_epoch():
    found, checker = evidence(), OneLeaderPerEpoch()
    checker.on_leader(found, HOST, PID, leader(1, []))
    checker.on_leader(found, OTHER, PID, leader(2, []))
    checker.on_leader(found, HOST, PID, leader(1, []))
    with rejects("OneLeaderPerEpoch"):
        checker.on_leader(found, OTHER, PID, leader(1, []))


def test_no_false_damage():
    def host(*damaged: str, was_damaged: bool = False) -> SimpleNamespace:
        replicas = SimpleNamespace(damaged=damaged)
        node = SimpleNamespace(broker=SimpleNamespace(replicas=replicas))
        return SimpleNamespace(
            name="host1", node=node, disk=SimpleNamespace(was_damaged=was_damaged)
        )

    found, checker = evidence(), NoFalseDamage()
    for fine in (host(), host("t-0", was_damaged=True)):
        found.world.hosts = {1: fine}
        checker.sweep(found)
    found.world.hosts = {1: host("t-0")}
    with rejects("NoFalseDamage"):
        checker.sweep(found)


def test_no_false_loss():
    """A wiped disk, and one that has refused anything, may lack a log; another one may not."""
    found, checker = evidence(), NoFalseLoss()
    sound = PartitionImage((1, 2), (1, 2), 1, 0, 0, directories=(ZERO_UUID, ZERO_UUID))
    lost = replace(sound, directories=(LOST_DIRECTORY, ZERO_UUID))
    topic_id = TopicId(bytes(15) + b"\x07")

    def look(partition: PartitionImage) -> None:
        topic = TopicImage("t", topic_id, {0: partition})
        found.newest_image = MetadataImage(offset=3, topics_by_name={"t": topic})
        checker.sweep(found)

    look(sound)
    with rejects("NoFalseLoss"):
        look(lost)
    found.world.hosts[1].disk.was_hurt = True
    look(lost)
    found.world.hosts[1].disk.was_hurt = False
    found.world.wipe(1)
    look(lost)


def test_images_of_two_nodes_at_one_offset():
    checker = ImageIsFoldOfLog()
    checker.on_image(HOST, MetadataImage(offset=3))
    checker.on_image(OTHER, MetadataImage(offset=3))
    checker.on_image(OTHER, MetadataImage(offset=4, next_producer_id=1000))
    with rejects("ImageIsFoldOfLog"):
        checker.on_image(HOST, MetadataImage(offset=4))
