"""How far the metadata log is durable, noted without a sync."""

import pytest

from tests.unit.log.harness import DIRECTORY_ID, WALL_MS, batch
from tidelog.config import LogConfig
from tidelog.env.effects import EffectQueue, Flush, Replace
from tidelog.env.memory_disk import MemoryDisk
from tidelog.env.trace import Trace, TraceList
from tidelog.log.checkpoint import HIGH_WATERMARK_FILE, RECOVERY_POINT_FILE, CleanShutdown
from tidelog.log.directory import LogDirectory
from tidelog.log.file_names import offset_name
from tidelog.log.flushed_end import FLUSHED_END_FILE, FlushedEnd
from tidelog.log.identity import format_directory
from tidelog.log.log import Log
from tidelog.log.pieces import finish
from tidelog.log.values import Checkpoints
from tidelog.model import METADATA_PARTITION, METADATA_TOPIC_ID
from tidelog.sim.engine.disk import ProcessKilled, SimDisk

PATH = f"{METADATA_PARTITION}/{FLUSHED_END_FILE}"
LOG = f"{METADATA_PARTITION}/{0:020}.log"


def noted(*ends: int, disk: MemoryDisk | None = None) -> MemoryDisk:
    """A disk on which one process has noted these ends."""
    disk = disk or MemoryDisk()
    disk.make_dir(str(METADATA_PARTITION))
    flushed_end = FlushedEnd(disk, str(METADATA_PARTITION))
    for end in ends:
        flushed_end.note(end)
    flushed_end.close()
    return disk


def read(disk: MemoryDisk) -> int:
    """What the next process reads."""
    return FlushedEnd(disk, str(METADATA_PARTITION)).read()


def test_the_last_note_counts() -> None:
    """Goal: also when it is lower than the one before, and when another process has added it."""
    assert read(MemoryDisk()) == 0
    disk = noted(7, 300, 12)
    assert read(disk) == 12
    assert read(noted(1 << 40, disk=disk)) == 1 << 40


@pytest.mark.parametrize("lost_bytes", [1, 7, 11])
def test_a_note_that_was_not_written_to_its_end(lost_bytes: int) -> None:
    """Goal: the one before counts, and the next process goes on behind that."""
    disk = noted(7, 300)
    content = disk.content(PATH)
    content.truncate(len(content.data) - lost_bytes)
    assert read(disk) == 7
    assert read(noted(8, disk=disk)) == 8


def test_a_note_that_was_damaged_does_not_count() -> None:
    """Goal: an end is never made up, whichever bit of the last note flips."""
    for bit in range(12 * 8):
        disk = noted(7, 300)
        disk.flip_bit(PATH, 8 * (len(disk.content(PATH).data) - 12) + bit)
        assert read(disk) == 7, bit


def test_notes_of_another_boot_do_not_count() -> None:
    """Goal: after a power cut nothing is claimed, though the file may have survived."""
    disk = noted(7, 300)
    disk.sync_tree()
    disk.crash()
    assert disk.content(PATH).data
    assert read(disk) == 0
    assert read(noted(5, disk=disk)) == 5


def test_without_the_name_of_a_boot_nothing_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: on a system that does not say which boot it is, no file is made and none believed."""
    monkeypatch.setattr(MemoryDisk, "boot_id", "")
    disk = noted(7)
    assert not disk.exists(PATH) and read(disk) == 0
    disk.replace(PATH, b"\n")
    assert read(disk) == 0


def test_the_file_begins_anew_before_it_is_large() -> None:
    """Goal: a year of flushes takes no more than 64 KiB and a note."""
    disk = noted(*range(6_000))
    assert read(disk) == 5_999
    assert len(disk.content(PATH).data) < (1 << 16) + 100


@pytest.mark.parametrize(
    ("checkpoints", "may_be_cut", "claimed"),
    [
        (Checkpoints(recovery_point=90, high_watermark=95), True, 90),
        (Checkpoints(recovery_point=90, high_watermark=80), True, 80),
        (Checkpoints(recovery_point=90, high_watermark=0), False, 90),
        (Checkpoints(recovery_point=10, high_watermark=5), True, 20),
    ],
)
def test_notes_and_checkpoints_together(
    checkpoints: Checkpoints, may_be_cut: bool, claimed: int
) -> None:
    """Goal: what either shows was durable. Of the checkpoints the high watermark bounds the
    recovery point where the log may have been cut since."""
    flushed_end = FlushedEnd(noted(20), str(METADATA_PARTITION))
    applied = flushed_end.applied_to(checkpoints, may_be_cut=may_be_cut)
    assert applied == checkpoints._replace(recovery_point=claimed)


class Voter:
    """The metadata log on a disk that may end the process."""

    def __init__(self, config: LogConfig | None = None) -> None:
        self.disk = SimDisk("voter")
        self.config = config or LogConfig()
        self.effects = EffectQueue()
        format_directory(self.disk, cluster_id="c", node_id=1, directory_id=DIRECTORY_ID)
        self.start()

    @property
    def log(self) -> Log:
        return self.directory.logs[METADATA_PARTITION]

    def start(self) -> None:
        """A process, as a node makes it."""
        self.effects.take()
        trace = Trace(TraceList())
        self.directory = LogDirectory.open(
            self.disk,
            effects=self.effects,
            trace=trace,
            default_config=self.config,
            wall_ms=WALL_MS,
        )
        if METADATA_PARTITION in self.directory.damaged:
            return
        if METADATA_PARTITION not in self.directory.logs:
            self.directory.create(METADATA_PARTITION, METADATA_TOPIC_ID, self.config)
        self.log.note_flushes(self.directory.flushed_end)

    @property
    def is_damaged(self) -> bool:
        return METADATA_PARTITION in self.directory.damaged

    def repair(self) -> None:
        """Removes what is bad and all behind it."""
        repaired = self.directory.repaired(
            METADATA_PARTITION, METADATA_TOPIC_ID, self.config, remember=True
        )
        finish(repaired)

    def write(self, count: int, *, flushed: bool) -> None:
        """Appends batches of one record; the driver answers the flush, if there is one."""
        for _ in range(count):
            self.log.append_as_leader(batch(), 1, WALL_MS)
        if flushed:
            self.log.request_flush()
            self.carry_out()

    def carry_out(self) -> None:
        """What a driver does."""
        for effect in self.effects.take():
            if isinstance(effect, Replace):
                self.disk.replace(effect.path, effect.data)
            elif isinstance(effect, Flush):
                self.disk.sync(effect.file)
                self.log.on_flushed(effect.subject)

    def stop(self) -> None:
        """A clean stop."""
        self.directory.close_cleanly(CleanShutdown(1))
        self.carry_out()


def test_flipped_after_a_kill() -> None:
    """FlushedEndOutlivesKill. Goal: in a record that was flushed a flipped bit is damage, though no
    checkpoint was written since; above it is a torn end."""
    for is_flushed in (True, False):
        voter = Voter()
        voter.write(3, flushed=True)
        size_bytes = voter.disk.open(LOG).size_bytes
        voter.write(3, flushed=is_flushed)
        voter.disk.flip_bit(LOG, 8 * (size_bytes + 70))
        voter.start()
        assert voter.is_damaged is is_flushed
        if not is_flushed:
            assert voter.log.log_end_offset == 3


@pytest.mark.parametrize("cut_to", [0, 4])
def test_a_cut_lowers_the_claim_first(cut_to: int) -> None:
    """NoFalseDamage. Goal: wherever a process dies in a cut or in a restart at another offset, and
    while it writes behind that, the next start finds no damage.
    Method: the process ends at the first write, at the second, and so on."""
    for fuse in range(40):
        voter = Voter()
        voter.write(10, flushed=True)
        voter.disk.fuse = fuse
        try:
            if cut_to:
                voter.log.truncate_to(cut_to)
            else:
                voter.log.truncate_fully_and_start_at(25)
            voter.write(2, flushed=True)
            voter.log.truncate_to(5)
        except ProcessKilled:
            pass
        else:
            assert fuse > 4
            return
        voter.start()
        assert not voter.is_damaged, fuse
    pytest.fail("the process never got to the end")


@pytest.mark.parametrize("snapshot_end", [10, 12, 25])
def test_a_power_cut_behind_the_installation_of_a_snapshot_takes_nothing(snapshot_end: int) -> None:
    """NoFalseDamage. Goal: the durable snapshot stands for all that the checkpoints claim. The old
    segments were gone for good and the name of the new one was not durable: a sound voter neither
    voted nor asked for votes before another one led.
    Method: the process ends at the first write, at the second, and so on, and the power with it."""
    for fuse in range(40):
        voter = Voter(LogConfig(segment_bytes=300))
        voter.write(12, flushed=True)
        assert voter.log.segments.active.base_offset > 9
        voter.log.update_high_watermark(9)
        voter.directory.checkpoint_recovery_points()
        voter.directory.checkpoint_high_watermarks()
        voter.carry_out()
        snapshot = f"{METADATA_PARTITION}/{offset_name(snapshot_end)}-0000000001.checkpoint"
        voter.disk.replace(snapshot, b"whatever")
        voter.disk.fuse, is_done = fuse, True
        try:
            voter.log.truncate_fully_and_start_at(snapshot_end, start_is_durable=True)
        except ProcessKilled:
            is_done = False
        voter.disk.fuse = None
        voter.disk.crash()
        voter.start()
        assert not voter.is_damaged, fuse
        if is_done:
            return
    pytest.fail("the process never got to the end")


def test_what_is_gone_stays_known_through_a_clean_stop() -> None:
    """MemoryComesBackFirst (seed 1686078918 on damaged disks). Goal: a voter that has not got back
    what it lost knows that after a clean stop too, though both checkpoints were lost meanwhile."""
    voter = Voter()
    voter.write(6, flushed=True)
    voter.disk.flip_bit(LOG, 8 * 70)
    voter.start()
    assert voter.is_damaged
    voter.repair()
    voter.stop()
    for name in (RECOVERY_POINT_FILE, HIGH_WATERMARK_FILE):
        voter.disk.replace(name, b"bad")
    voter.start()
    assert voter.is_damaged


def test_what_is_gone_stays_known_though_nothing_said_how_much_it_was() -> None:
    """MemoryComesBackFirst. Goal: a voter that was cut while its recovery points were lost, and the
    note of its end with them, does not take what is left for all that it had."""
    voter = Voter()
    voter.write(6, flushed=True)
    voter.disk.flip_bit(LOG, 8 * 70)
    voter.disk.delete(RECOVERY_POINT_FILE)
    voter.disk.delete(PATH)
    voter.start()
    assert voter.is_damaged
    voter.repair()
    voter.stop()
    voter.start()
    assert voter.is_damaged
    voter.repair()
    voter.directory.forget_former_end(METADATA_PARTITION)
    voter.stop()
    voter.start()
    assert not voter.is_damaged


def test_a_second_repair_keeps_the_first_end() -> None:
    """MemoryComesBackFirst (seed 227705537 on damaged disks: the log that was left after a repair
    was damaged as well, and the voter did not start). Goal: the end from before both is kept."""
    voter = Voter(LogConfig(segment_bytes=200))
    voter.write(12, flushed=True)
    bases = [segment.base_offset for segment in voter.log.segments]
    assert len(bases) > 4
    for base in (bases[1], bases[-1]):
        voter.disk.flip_bit(f"{METADATA_PARTITION}/{base:020}.log", 8 * 70)
    voter.start()
    ends = []
    while not voter.directory.is_sound(METADATA_PARTITION):
        voter.repair()
        ends.append(voter.log.log_end_offset)
    assert ends == [bases[-1], bases[1]]
    known = voter.directory.remembered[METADATA_PARTITION].checkpoints
    assert known.recovery_point == 12
