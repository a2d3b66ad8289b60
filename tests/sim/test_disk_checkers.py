"""The checkers that read files: what each must reject, and the nearest that is fine."""

from contextlib import nullcontext

import pytest
from tests.sim.test_checkers import PID, K, evidence, rejects
from tests.unit.log.harness import batch

from tidelog.env.prng import Prng
from tidelog.kraft.messages import SnapshotId
from tidelog.kraft.snapshot_format import snapshot_name
from tidelog.log.checkpoint import (
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    encode_epochs,
    encode_offsets,
    encode_partition_metadata,
)
from tidelog.log.identity import format_directory
from tidelog.model import TopicPartition, Uuid
from tidelog.records.batch import stamp
from tidelog.sim.checkers.devices import CommittedIsDurable, DisksAreSound, RecoveredFromImage
from tidelog.sim.checkers.readings import RestartLosesNothing
from tidelog.sim.engine.disk import SimDisk
from tidelog.sim.evidence.history import Polled
from tidelog.sim.evidence.oracle import BatchMark, TrueLog
from tidelog.sim.evidence.scrub import batches_of, scrub

LOG = "t-0/00000000000000000000.log"
INDEX = "t-0/00000000000000000000.index"


def records(*offsets: int, epoch: int = 0) -> bytes:
    """Batches of one record each."""
    return b"".join(stamp(batch(), offset, epoch) for offset in offsets)


def disk_with(*offsets: int) -> SimDisk:
    """A log with these durable batches."""
    disk = SimDisk("host1")
    format_directory(disk, cluster_id="c", node_id=1, directory_id=Uuid(bytes(15) + b"\1"))
    disk.make_dir("t-0")
    disk.replace(LOG, records(*offsets))
    disk.replace("t-0/partition.metadata", encode_partition_metadata(PID.topic_id))
    disk.replace("t-0/leader-epoch-checkpoint", encode_epochs([(0, 0)]))
    return disk


# DisksAreSound ------------------------------------------------------------------------------


def test_disks_are_sound():
    found = evidence()
    DisksAreSound().at_end(found)
    disk = found.world.hosts[2].disk
    disk.make_dir("t-0")
    disk.replace(LOG, records(0, 1))
    disk.replace("t-0/partition.metadata", encode_partition_metadata(PID.topic_id))
    disk.replace("t-0/leader-epoch-checkpoint", encode_epochs([(0, 0)]))
    DisksAreSound().at_end(found)
    disk.flip_bit(LOG, 8 * 70)
    with rejects("DisksAreSound"):
        DisksAreSound().at_end(found)


@pytest.mark.parametrize(
    ("path", "data", "complaint"),
    [
        (LOG, records(0, 1)[:-1], "no batch"),
        (LOG, records(1, 0), "offset 0"),
        (LOG, records(0) + bytes(100), "no batch"),
        ("t-0/00000000000000000001.log", records(1), "after"),
        ("t-0/leader-epoch-checkpoint", encode_epochs([(1, 0)]), "does not fit"),
        ("t-0/leader-epoch-checkpoint", b"0\n7\n", "announced"),
        ("t-0/partition.metadata", b"\0\0", "no colon"),
        ("t-0/00000000000000000002.snapshot", b"\0\1", "not a snapshot"),
        ("t-0/quorum-state", b"{", "quorum state"),
        ("recovery-point-offset-checkpoint", b"0\n1\n", "announced"),
        ("meta.properties", b"version=0\n", "no version"),
    ],
)
def test_a_scrub_finds_what_is_wrong(path, data, complaint):
    disk = disk_with(0, 1)
    assert scrub(disk, settled=True) == []
    disk.replace(path, data)
    complaints = scrub(disk, settled=True)
    assert any(complaint in each for each in complaints), complaints


def test_a_scrub_follows_the_indexes_of_sealed_segments():
    disk = disk_with(0, 1, 2)
    disk.replace("t-0/00000000000000000003.log", b"")
    assert any("missing" in each for each in scrub(disk, settled=True))
    first = len(records(0))
    disk.replace("t-0/00000000000000000000.timeindex", b"")
    disk.replace(INDEX, (1).to_bytes(4, "big") + first.to_bytes(4, "big"))
    assert scrub(disk, settled=True) == []
    disk.replace(INDEX, (2).to_bytes(4, "big") + first.to_bytes(4, "big"))
    assert any("wrong entry" in each for each in scrub(disk, settled=True))


def test_a_log_without_the_id_of_its_topic_is_not_sound():
    """Damage took the file from under a process, and the budget struck a second replica (seed
    1093490072)."""
    disk = disk_with(0, 1)
    disk.delete("t-0/partition.metadata")
    assert scrub(disk, settled=True) == ["t-0/partition.metadata: missing"]


def test_an_epoch_file_begins_at_the_log_start():
    disk = disk_with(0, 1, 2)
    disk.replace("t-0/leader-epoch-checkpoint", encode_epochs([(0, 2)]))
    assert scrub(disk, settled=True) == []


@pytest.mark.parametrize(("log_start", "is_sound"), [(1, False), (2, True)])
def test_of_batches_below_the_log_start_no_epoch_is_known(log_start, is_sound):
    """A log that retention has emptied, and whose only segment stays, has no epochs (seed 13)."""
    disk = disk_with(0, 1)
    disk.delete("t-0/leader-epoch-checkpoint")
    for name, offset in ((RECOVERY_POINT_FILE, 2), (LOG_START_FILE, log_start)):
        disk.replace(name, encode_offsets({TopicPartition("t", 0): offset}))
    assert (scrub(disk, settled=True) == []) is is_sound


def test_an_epoch_file_may_lag_while_the_node_works():
    disk = disk_with(0, 1)
    disk.replace("t-0/leader-epoch-checkpoint", encode_epochs([]))
    assert scrub(disk, settled=False) == []
    assert scrub(disk, settled=True) != []


@pytest.mark.parametrize(("claimed_to", "is_sound"), [(0, True), (1, False)])
def test_an_epoch_file_is_due_before_a_record_is_claimed(claimed_to, is_sound):
    """A repaired log of one segment that was never flushed has none (seed 65813886)."""
    disk = disk_with(0, 1)
    disk.replace(RECOVERY_POINT_FILE, encode_offsets({TopicPartition("t", 0): claimed_to}))
    disk.delete("t-0/leader-epoch-checkpoint")
    assert (scrub(disk, settled=True) == []) is is_sound


# RecoveredFromImage -------------------------------------------------------------------------


def cut(written: bytes = b"") -> tuple[RecoveredFromImage, SimDisk]:
    """A power cut that strikes after batches 0 and 1 were flushed and `written` was not."""
    checker, disk = RecoveredFromImage(), disk_with(0, 1)
    disk.open(LOG).append([written])
    checker.before_power_cut(disk)
    return checker, disk


@pytest.mark.parametrize("survive", [(0, 1), (0, 1, 2), (0, 1, 2, 3)])
def test_any_prefix_beyond_what_was_flushed_is_legal(survive):
    checker, disk = cut(records(2, 3))
    disk.replace(LOG, records(*survive))
    checker.after_start(disk)


@pytest.mark.parametrize("survive", [(), (0,), (0, 1, 3), (0, 1, 2, 3, 4)])
def test_lost_and_invented_batches_are_not(survive):
    checker, disk = cut(records(2, 3))
    disk.replace(LOG, records(*survive))
    with rejects("RecoveredFromImage"):
        checker.after_start(disk)


@pytest.mark.parametrize(("claimed_to", "is_legal"), [(0, True), (2, False)])
@pytest.mark.parametrize("metadata", [b"", bytes(20), b"version: 0\ntopic_"])
def test_a_log_without_topic_id_may_go_unless_its_records_are_claimed(
    metadata, claimed_to, is_legal
):
    """A flush for an empty log took along the record that came meanwhile (seed 1106713973)."""
    checker, disk = RecoveredFromImage(), disk_with(0, 1)
    disk.replace("t-0/partition.metadata", metadata)
    disk.replace(RECOVERY_POINT_FILE, encode_offsets({TopicPartition("t", 0): claimed_to}))
    checker.before_power_cut(disk)
    disk.replace(LOG, b"")
    with nullcontext() if is_legal else rejects("RecoveredFromImage"):
        checker.after_start(disk)


def test_an_undone_truncation_is_legal_and_a_mixture_is_not():
    checker, disk = RecoveredFromImage(), disk_with(0, 1, 2)
    file = disk.open(LOG)
    file.truncate(len(records(0)))
    file.append([records(1, 2, epoch=5)])
    checker.before_power_cut(disk)
    disk.replace(LOG, records(0, 1, 2))
    checker.after_start(disk)
    checker.before_power_cut(disk)
    disk.replace(LOG, records(0, 1) + records(2, epoch=5))
    with rejects("RecoveredFromImage"):
        checker.after_start(disk)


def test_what_a_second_power_cut_finds_is_no_more_than_the_first_one_left():
    checker, disk = cut(records(2, 3))
    # By chance the first power cut kept batch 2; that was no promise.
    disk.replace(LOG, records(0, 1, 2))
    checker.before_power_cut(disk)
    disk.replace(LOG, records(0, 1))
    checker.after_start(disk)


def test_what_a_start_that_failed_took_away_is_missed_after_a_second_power_cut():
    checker, disk = cut(records(2, 3))
    disk.replace(LOG, records(0))
    checker.before_power_cut(disk)
    with rejects("RecoveredFromImage"):
        checker.after_start(disk)


def test_after_a_start_the_next_power_cut_is_the_first_again():
    checker, disk = cut(records(2, 3))
    checker.after_start(disk)
    disk.replace(LOG, records(0, 1, 2))
    checker.before_power_cut(disk)
    disk.replace(LOG, records(0, 1))
    with rejects("RecoveredFromImage"):
        checker.after_start(disk)


@pytest.mark.parametrize(("end", "legal"), [(3, False), (4, True), (9, True)])
def test_a_log_may_begin_anew_behind_a_snapshot_of_all_it_had(end, legal):
    checker, disk = cut(records(2, 3))
    disk.replace(LOG, b"")
    disk.replace(f"t-0/{snapshot_name(SnapshotId(end, 0))}", b"its content is judged by others")
    if legal:
        checker.after_start(disk)
    else:
        with rejects("RecoveredFromImage"):
            checker.after_start(disk)


def test_a_damaged_disk_is_judged_by_others():
    checker, disk = cut()
    disk.replace(LOG, b"")
    disk.damaged = True
    checker.after_start(disk)


# CommittedIsDurable -------------------------------------------------------------------------


def test_committed_is_durable():
    found = evidence()
    header = batches_of(records(0, 1))[0][1]
    mark = BatchMark(header.base_offset, header.last_offset, header.leader_epoch, header.crc)
    found.oracle.logs[PID] = TrueLog([mark], 2)
    for node_id in (1, 2):
        disk = found.world.hosts[node_id].disk
        disk.make_dir("t-0")
        disk.replace("t-0/partition.metadata", encode_partition_metadata(PID.topic_id))
        disk.replace(LOG, records(0))
        disk.open(LOG).append([records(1)])
    for synced in (1, 2):
        with rejects("CommittedIsDurable"):
            CommittedIsDurable(2).look(found)
        disk = found.world.hosts[synced].disk
        disk.sync(disk.open(LOG))
    CommittedIsDurable(2).look(found)
    found.world.hosts[1].disk.delete("t-0/partition.metadata")
    with rejects("CommittedIsDurable"):
        CommittedIsDurable(2).look(found)
    found.history.abandoned.add(K.topic)
    CommittedIsDurable(2).look(found)


# RestartLosesNothing ------------------------------------------------------------------------


def test_restart_loses_nothing():
    found = evidence((0, "a"), (1, "b"))
    found.after_restart = {K: (Polled(0, "a"), Polled(1, "b"), Polled(2, "c"))}
    RestartLosesNothing().at_end(found)
    for after in ((Polled(0, "a"),), (Polled(0, "a"), Polled(1, "z")), ()):
        found.after_restart = {K: after}
        with rejects("RestartLosesNothing"):
            RestartLosesNothing().at_end(found)


def test_crash_images_are_legal_by_the_model():
    """The two models agree: whatever the disk leaves of appended batches passes the checker when
    it is cut at the first bad batch."""
    for seed in range(60):
        checker, disk = cut(records(*range(2, 60)))
        disk.crash(Prng(seed))
        batches, _ = batches_of(disk.read_file(LOG) or b"")
        disk.replace(LOG, records(*(each.base_offset for each in batches)))
        checker.after_start(disk)


@pytest.mark.parametrize("gone", [(LOG,), (LOG, INDEX, INDEX.replace("index", "timeindex"))])
def test_a_log_file_that_is_gone_is_missed(gone):
    """Seed 86543929: a log without index files looked like one without records."""
    disk = disk_with(0, 1)
    disk.replace(RECOVERY_POINT_FILE, encode_offsets({TopicPartition("t", 0): 2}))
    assert scrub(disk, settled=True) == []
    for path in gone:
        disk.delete(path)
    assert scrub(disk, settled=True) != []
