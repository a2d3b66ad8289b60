"""Damaged logs: reported first, cut when no leader counts on them, never when they are the last."""

from dataclasses import replace

import pytest

from tests.unit.log.harness import DIRECTORY_ID, PARTITION, TOPIC_ID, LogBench, read_all
from tests.unit.replication.surroundings import make_env
from tidelog.config import LogConfig
from tidelog.env.instant import Instant
from tidelog.errors import LogDamaged
from tidelog.limits import BATCH_WALKING_WORK, FILE_DELETION_WORK, REPLICA_WORK_PER_TURN
from tidelog.log.file_names import offset_name
from tidelog.metadata.image import (
    TOPIC_RESOURCE,
    ConfigResource,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from tidelog.model import LOST_DIRECTORY, Uuid
from tidelog.replication.events.damage import DamagedLogReason
from tidelog.replication.messages import SendAssignReplicas
from tidelog.replication.quarantine import UNCLEAN_ELECTION, Quarantine

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=200)
OTHER = Uuid(b"o" * 16)
IN_SYNC = PartitionImage((1, 2), (1, 2), 1, 4, 8, directories=(DIRECTORY_ID, OTHER))
LOST = replace(IN_SYNC, isr=(2,), leader=2, leader_epoch=5, directories=(LOST_DIRECTORY, OTHER))
LEADERLESS = replace(LOST, isr=(), leader=-1)


class Ward:
    """A damaged log of broker 1 in quarantine."""

    def __init__(self, config: LogConfig = CONFIG) -> None:
        self.config = config
        self.bench = LogBench(config)
        for _ in range(200):
            self.bench.append()
        self.bad = self.bench.log.segments[2].base_offset
        self.kept = read_all(self.bench.log, self.bad)
        self.files = self.listing()
        self.env = make_env(self.bench)
        self.outbox = self.env.outbox
        self.quarantine = Quarantine(self.env)
        self.quarantine.take_out(PARTITION, TOPIC_ID, LogDamaged("`x` is damaged", self.bad))

    def listing(self) -> dict[str, bytes | None]:
        disk = self.bench.disk
        path = str(PARTITION)
        return {name: disk.read_file(f"{path}/{name}") for name in disk.list_dir(path)}

    def withholds(self, image: PartitionImage) -> bool:
        self.quarantine.check()
        return self.quarantine.withholds(PARTITION, TOPIC_ID, image, self.config)

    def repair(self) -> list[set[str]]:
        """Goes through the turns that a repair takes; returns the files that each removed."""
        removed, before, now = [], set(self.listing()), 0
        while self.withholds(LOST):
            now += 1
            self.env.work.on_tick(Instant(now))
            left = set(self.listing())
            removed.append(before - left)
            before = left
        return removed

    def reports(self, now: int) -> list[Uuid]:
        """The directory ids that are reported at this instant, and not answered."""
        self.quarantine.reports.maybe_send(Instant(now))
        found = []
        for output in self.outbox.take():
            assert isinstance(output, SendAssignReplicas)
            found += [item.directory_id for item in output.assignments]
            self.quarantine.reports.on_response(output.token, "no controller", Instant(now))
        return found


def test_a_log_is_cut_only_when_it_is_lost_and_another_broker_leads():
    """LostBeforeCut: what is kept is what lies below the bad segment."""
    ward = Ward()
    assert ward.withholds(IN_SYNC) and ward.quarantine.is_reporting
    assert ward.listing() == ward.files
    assert ward.reports(0) == [LOST_DIRECTORY]
    assert ward.withholds(LEADERLESS) and not ward.quarantine.is_reporting
    assert ward.listing() == ward.files
    ward.repair()
    assert ward.bench.log.log_end_offset == ward.bad
    assert read_all(ward.bench.log) == ward.kept
    assert ward.reports(100) == [DIRECTORY_ID]


@pytest.mark.parametrize("policy", ["compact", "compact,delete", "delete"])
def test_nothing_is_kept_of_a_log_that_was_compacted(policy: str) -> None:
    """A key was deleted behind the bad segment, and the leader's cleaner had removed the tombstone
    when that was fetched again: the value below the cut was back."""
    ward = Ward(replace(CONFIG, cleanup_policy=policy))
    if policy == "delete":
        # The policy has changed since: offsets are missing in the log.
        damage = ward.bench.directory.damaged[PARTITION]
        checkpoints = damage.checkpoints._replace(cleaned_to=0)
        ward.bench.directory.damaged[PARTITION] = damage._replace(checkpoints=checkpoints)
    ward.withholds(IN_SYNC)
    ward.repair()
    assert ward.bench.log.log_end_offset == 0


@pytest.mark.parametrize(
    ("partition", "left"),
    [
        (LEADERLESS, True),
        (LOST, False),
        (replace(LEADERLESS, directories=IN_SYNC.directories), None),
    ],
)
def test_records_are_given_up_only_while_no_replica_leads(
    partition: PartitionImage, left: bool | None
) -> None:
    """The replica that has all records led again, and with that very metadata the lost one went on
    with what was left of it: values were back that were deleted behind the cut."""
    ward = Ward(replace(CONFIG, cleanup_policy="compact"))
    ward.withholds(IN_SYNC)
    ward.withholds(LEADERLESS)
    topic = TopicImage(PARTITION.topic, TOPIC_ID, {PARTITION.partition: partition})
    allowed = {ConfigResource(TOPIC_RESOURCE, topic.name): {UNCLEAN_ELECTION: "true"}}
    image = MetadataImage(
        topics_by_name={topic.name: topic}, topics_by_id={TOPIC_ID: topic}, configs=allowed
    )
    ward.quarantine.give_up_records(PARTITION, image, ward.config)
    if left is None:
        assert ward.quarantine.under_way is None, "LostBeforeCut"
        return
    ward.repair()
    assert ward.bench.log.log_end_offset == (ward.bad if left else 0)


def test_reports_are_repeated_until_the_metadata_has_them():
    ward = Ward()
    ward.withholds(IN_SYNC)
    assert ward.reports(0) == [LOST_DIRECTORY]
    assert ward.reports(49) == [] and ward.quarantine.reports.deadline() == 50
    assert ward.reports(50) == [LOST_DIRECTORY]
    ward.repair()
    assert ward.reports(100) == [DIRECTORY_ID]
    assert not ward.withholds(replace(LOST, directories=IN_SYNC.directories))
    assert ward.reports(200) == [] and ward.quarantine.reports.deadline() is None


def test_a_repair_removes_a_few_files_a_turn_and_ends_without_its_leader():
    """BoundedTurn (seed 543408395: a turn that removed 37 segments took 300 ms)."""
    ward = Ward()
    ward.withholds(IN_SYNC)
    assert ward.withholds(LOST) and ward.quarantine.under_way == PARTITION
    assert ward.withholds(LEADERLESS), "one turn of it has no leader"
    removed = ward.repair()
    assert ward.quarantine.under_way is None
    assert len(removed) > 5
    assert max(map(len, removed)) <= -(-REPLICA_WORK_PER_TURN // FILE_DELETION_WORK)
    assert read_all(ward.bench.log) == ward.kept


def test_a_crash_between_two_turns_of_a_repair_leaves_the_log_damaged():
    """LostBeforeCut: no start takes what is left for the whole log."""
    turns = 0
    while True:
        ward = Ward()
        ward.withholds(IN_SYNC)
        ward.bench.settle()
        turns += 1
        for now in range(turns):
            if not ward.withholds(LOST):
                break
            ward.env.work.on_tick(Instant(now + 1))
        if PARTITION in ward.bench.directory.logs:
            break
        assert PARTITION in ward.bench._open().damaged, f"after {turns} turns"
    assert turns > 5


def test_a_crash_in_the_middle_of_a_repair_does_not_hide_the_damage():
    """Half of the files were gone, so a start knew of an end that was missing and of nothing else:
    the repair kept the bad segment, and the replica counted as one that has it."""
    ward = Ward()
    bench = ward.bench
    bench.disk.flip_bit(f"{PARTITION}/{offset_name(ward.bad)}.log", 8 * 100)
    ward.withholds(IN_SYNC)
    bench.settle()
    for now in range(3):
        assert ward.withholds(LOST)
        ward.env.work.on_tick(Instant(now + 1))
    bench.directory = bench._open()
    assert bench.directory.damaged[PARTITION].base_offset > ward.bad
    ward.env = make_env(bench)
    ward.outbox, ward.quarantine = ward.env.outbox, Quarantine(ward.env)
    turns = 0
    while ward.withholds(LOST):
        assert ward.quarantine.under_way == PARTITION and ward.reports(turns) == []
        turns += 1
        ward.env.work.on_tick(Instant(turns))
    assert ward.reports(turns) == [DIRECTORY_ID]
    bench.log.verify()
    assert read_all(bench.log) == ward.kept


def test_a_log_that_goes_in_the_middle_of_its_repair_is_not_repaired_any_more():
    ward = Ward()
    ward.withholds(IN_SYNC)
    assert ward.withholds(LOST)
    ward.quarantine.delete_case(PARTITION, DamagedLogReason.NOT_PLACED)
    assert ward.quarantine.under_way is None
    assert PARTITION not in ward.bench.directory.damaged


def test_a_restart_finds_the_log_damaged_though_it_is_only_shorter():
    """Goal: the recovery point goes on naming the former end while the log is in quarantine."""
    ward = Ward()
    ward.bench.settle()
    last = max(name for name in ward.files if name.endswith(".log"))
    ward.bench.disk.delete(f"{PARTITION}/{last}")
    directory = ward.bench._open()
    assert PARTITION in directory.damaged


def test_a_lost_log_that_is_sound_again_is_believed_after_it_was_read():
    """Goal: the operator has put an intact copy back; nothing is cut."""
    fresh = LogBench(CONFIG)
    for _ in range(5):
        fresh.append()
    env = make_env(fresh)
    quarantine = Quarantine(env)
    assert not quarantine.withholds(PARTITION, TOPIC_ID, LEADERLESS, CONFIG)
    assert fresh.log.log_end_offset == 5
    quarantine.reports.maybe_send(Instant(0))
    (report,) = env.outbox.take()
    assert isinstance(report, SendAssignReplicas)
    assert report.assignments[0].directory_id == DIRECTORY_ID


class Returned:
    """A log of many segments that a former process has reported as lost, and no damage any more."""

    def __init__(self) -> None:
        self.bench = LogBench(CONFIG)
        for _ in range(1000):
            self.bench.append()
        self.env = make_env(self.bench)
        self.quarantine = Quarantine(self.env)
        # Batches that were looked at, by turn.
        self.looked_at: list[int] = []

    def is_hosted_after(self, turns: int) -> bool:
        """Whether nothing withholds it any more."""
        for now in range(1, turns + 1):
            self.env.work.on_tick(Instant(now))
            before = self.env.work.left
            withheld = self.quarantine.withholds(PARTITION, TOPIC_ID, LEADERLESS, CONFIG)
            self.looked_at.append(before - self.env.work.left)
            if not withheld:
                return True
        return False


def test_a_lost_log_is_read_a_part_a_turn():
    """BoundedTurn: one turn read as much as there was."""
    returned = Returned()
    assert not returned.is_hosted_after(2)
    assert returned.quarantine.under_way == PARTITION
    assert returned.is_hosted_after(20) and returned.quarantine.under_way is None
    assert max(returned.looked_at) < 1.25 * REPLICA_WORK_PER_TURN
    assert sum(returned.looked_at) >= 1000 * BATCH_WALKING_WORK - REPLICA_WORK_PER_TURN


def test_damage_that_a_later_turn_reads_begins_a_repair():
    returned = Returned()
    assert not returned.is_hosted_after(1)
    log = returned.bench.log
    bad = log.segments[len(log.segments) - 2].base_offset
    path = f"{PARTITION}/{offset_name(bad)}.log"
    returned.bench.disk.flip_bit(path, 8 * 100)
    assert not returned.is_hosted_after(20)
    assert returned.quarantine.under_way is None and not returned.quarantine.is_reporting
    assert returned.bench.directory.damaged[PARTITION].base_offset == bad


def test_a_log_that_is_not_lost_any_more_is_read_no_further():
    returned = Returned()
    assert not returned.is_hosted_after(1)
    returned.quarantine.follow(MetadataImage())
    assert returned.quarantine.under_way is None
