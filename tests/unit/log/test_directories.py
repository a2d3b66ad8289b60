"""Several log directories: where logs go, and what is done to all of them."""

import pytest

from tests.unit.log.harness import TOPIC_ID, WALL_MS, batch
from tidelog.config import LogConfig
from tidelog.env.effects import EffectQueue, EffectsOfDisk, Flush, OnDisk, Replace
from tidelog.env.instant import Instant
from tidelog.env.memory_disk import MemoryDisk
from tidelog.env.trace import Trace, TraceList
from tidelog.errors import LogDamaged, StorageError
from tidelog.log.checkpoint import CleanShutdown
from tidelog.log.deleted_files import DeletedSegment
from tidelog.log.directories import LogDirectories
from tidelog.log.directory import LogDirectory
from tidelog.log.identity import format_directory
from tidelog.log.values import LogFlush, OfflineDirectory
from tidelog.model import LOST_DIRECTORY, ZERO_UUID, TopicPartition, Uuid

IDS = [Uuid(letter * 16) for letter in (b"a", b"b", b"c")]
ELSEWHERE = Uuid(b"x" * 16)


class Disks:
    """Three directories, and the effects of all."""

    def __init__(self, **options: bool) -> None:
        self.disks = [MemoryDisk(root=f"disk{number}") for number in range(3)]
        self.effects = EffectQueue()
        found = {}
        for number, disk in enumerate(self.disks):
            format_directory(disk, cluster_id="c", node_id=1, directory_id=IDS[number])
            found[number] = LogDirectory.open(
                disk,
                effects=EffectsOfDisk(self.effects, number) if number else self.effects,
                trace=Trace(TraceList()),
                default_config=LogConfig(),
                wall_ms=0,
            )
        self.directories = LogDirectories(found, {}, **options)

    def create(self, number: int, wanted: Uuid = ZERO_UUID) -> int:
        """Makes a log; the number of the disk that it is on."""
        key = TopicPartition("t", number)
        self.directories.create(key, TOPIC_ID, LogConfig(), wanted)
        return next(i for i, disk in enumerate(self.disks) if disk.exists(str(key)))


def test_a_new_log_goes_where_the_metadata_says_or_where_the_fewest_are() -> None:
    disks = Disks()
    assert [disks.create(number, IDS[2]) for number in range(3)] == [2, 2, 2]
    assert sorted(disks.create(number) for number in range(3, 7)) == [0, 0, 1, 1]
    assert disks.create(7, ELSEWHERE) in (0, 1)
    assert len(disks.directories.logs) == 8


def test_the_directory_of_the_metadata_log_may_take_no_other() -> None:
    disks = Disks(first_takes_logs=False)
    assert {disks.create(number) for number in range(4)} == {1, 2}


def test_a_directory_that_fails_goes_offline_and_takes_its_logs_along() -> None:
    disks = Disks()
    for number in range(3):
        disks.create(number, IDS[number])
    disks.disks[1].failing = "input/output error"
    with pytest.raises(StorageError):
        disks.create(3, IDS[1])
    directories = disks.directories
    assert [each.directory_id for each, _ in directories.take_failed()] == [IDS[1]]
    assert set(directories.logs) == {TopicPartition("t", 0), TopicPartition("t", 2)}
    assert directories.of(TopicPartition("t", 1)) is None
    # A log that may be there is not made anew.
    assert directories.place_of(IDS[1]) is None and directories.place_of(ELSEWHERE) is None
    for anywhere in (ZERO_UUID, LOST_DIRECTORY):
        assert directories.place_of(anywhere) is not None
    # The node cannot go on without the metadata log.
    assert not directories.fail(directories.metadata, "input/output error")


def test_flushes_of_a_log_do_not_count_for_the_next_one_on_another_disk() -> None:
    """Goal: a replica that goes and comes back at once claims nothing that its former log had
    flushed, whose disk answers late."""
    disks, key = Disks(), TopicPartition("t", 0)
    disks.create(0, IDS[1])
    log = disks.directories.logs[key]
    log.append_as_leader(batch(), 0, WALL_MS)
    log.request_flush()
    late = disks.effects.take()
    disks.directories.schedule_delete(key)
    assert disks.create(0, IDS[2]) == 2
    for effect in late:
        if isinstance(effect, OnDisk) and isinstance(effect.work, Flush):
            assert isinstance(effect.work.subject, LogFlush)
            disks.directories.logs[key].on_flushed(effect.work.subject)
    assert disks.directories.logs[key].recovery_point == 0


def test_effects_name_their_disks_and_a_stop_waits_for_all() -> None:
    disks = Disks()
    for number in range(3):
        disks.create(number, IDS[number])
    disks.effects.take()
    disks.directories.checkpoint_recovery_points()
    emitted = disks.effects.take()
    assert isinstance(emitted[0], Replace)
    assert [each.disk for each in emitted if isinstance(each, OnDisk)] == [1, 2]
    assert disks.directories.close_cleanly(CleanShutdown(7))
    works = [each.work if isinstance(each, OnDisk) else each for each in disks.effects.take()]
    assert all(isinstance(work, Flush | Replace) for work in works)
    subjects = [work.subject for work in works if isinstance(work, Replace) and work.subject]
    assert [disks.directories.on_closed(subject) for subject in subjects] == [False, False, True]


def test_a_stop_is_clean_only_if_all_directories_agree() -> None:
    online = Disks().directories.online
    for directory in online.values():
        directory.clean_shutdown = CleanShutdown(7)
    assert LogDirectories(online, {}).clean_shutdown == CleanShutdown(7)
    gone = {3: OfflineDirectory("disk3", ZERO_UUID, "gone")}
    assert LogDirectories(online, gone).clean_shutdown is None
    online[1].clean_shutdown = CleanShutdown(6)
    assert LogDirectories(online, {}).clean_shutdown is None


def test_of_several_copies_one_is_kept() -> None:
    disks = Disks()
    key, other = TopicPartition("t", 0), Uuid(b"z" * 16)
    for number, directory in disks.directories.online.items():
        directory.create(key, other if number == 2 else TOPIC_ID, LogConfig())
    assert disks.directories.settle(key, TOPIC_ID, IDS[1]) != []
    assert disks.directories.copies_of(key) == [disks.directories.online[1]]
    assert disks.directories.settle(key, TOPIC_ID, IDS[0]) == []


KEY = TopicPartition("t", 0)


Epochs = tuple[tuple[int, int], ...]


def with_copies(*copies: Epochs) -> Disks:
    """On each disk a log of one partition: so many records of each leader epoch."""
    disks = Disks()
    for directory, epochs in zip(disks.directories.online.values(), copies, strict=False):
        log = directory.create(KEY, TOPIC_ID, LogConfig())
        for epoch, count in epochs:
            for _ in range(count):
                log.append_as_leader(batch(), epoch, WALL_MS)
    return disks


COMMITTED, UNCOMMITTED = ((3, 8), (4, 3)), ((3, 8), (5, 6))


@pytest.mark.parametrize(
    ("named", "other", "is_named_kept", "is_other_kept"),
    [
        pytest.param(COMMITTED, UNCOMMITTED, True, True, id="an uncommitted tail of a later epoch"),
        pytest.param(((3, 8),), COMMITTED, False, False, id="one that has all and more"),
        pytest.param(COMMITTED, ((3, 8),), True, False, id="one that lacks the newest"),
        pytest.param((), COMMITTED, False, False, id="more than an empty one"),
        pytest.param(COMMITTED, (), True, False, id="an empty one"),
        pytest.param(COMMITTED, COMMITTED, True, False, id="the same"),
    ],
)
def test_the_copy_that_the_metadata_names_is_kept_unless_another_has_all_of_it_and_more(
    named: Epochs, other: Epochs, is_named_kept: bool, is_other_kept: bool
) -> None:
    """`is_other_kept`: set aside, with records that the other one lacks."""
    directories = with_copies(other, named).directories
    aside = directories.settle(KEY, TOPIC_ID, IDS[1])
    assert directories.copies_of(KEY) == [directories.online[is_named_kept]]
    assert aside == [directories.online[0]] * is_other_kept


@pytest.mark.parametrize(("said", "kept"), [(IDS[1], 1), (ELSEWHERE, 0)])
def test_a_damaged_copy_is_the_replica_if_the_metadata_names_it(said: Uuid, kept: int) -> None:
    """Goal: a former log does not pass for a sound replica: it may lack what was committed since.
    Where the metadata names neither, the sound one is kept."""
    directories = with_copies(((3, 3),), ((3, 9),)).directories
    directories.online[1].quarantine(KEY, LogDamaged("a flipped bit", 0))
    assert directories.settle(KEY, TOPIC_ID, said) == [directories.online[1 - kept]]
    assert directories.copies_of(KEY) == [directories.online[kept]]


def test_a_copy_of_which_nothing_is_left_may_be_the_replica() -> None:
    """Only the checkpoints show that it was there."""
    disks = with_copies(((3, 3),), ((3, 9),))
    directories = disks.directories
    directories.online[1].quarantine(KEY, LogDamaged("it is missing", 0))
    disks.disks[1].delete(str(KEY))
    assert directories.settle(KEY, TOPIC_ID, IDS[1]) == [directories.online[0]]
    assert list(directories.damaged) == [KEY] and directories.offline == {}


def test_a_directory_where_nothing_can_be_deleted_keeps_no_other_from_it() -> None:
    """It is asked again each minute, and those behind it were not asked at all."""
    disks = Disks()
    directories = disks.directories
    for number in range(2):
        disks.create(number, IDS[number])
        key, disk = TopicPartition("t", number), disks.disks[number]
        disk.open(f"{key}/00000000000000000000.log.deleted", create=True).close()
        directories.add_deleted(DeletedSegment(key, 0, Instant(0)))
    disks.disks[0].failing = "input/output error"
    with pytest.raises(StorageError):
        directories.clear_deleted(Instant(0), 4)
    assert [len(each.deleted_files) for each in directories.online.values()] == [1, 0, 0]
