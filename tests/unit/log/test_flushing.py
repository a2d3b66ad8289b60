"""The flush ledger: groups, their answers, and cuts in between."""

from tests.unit.log.harness import PARTITION, TOPIC_ID
from tidelog.config import LogConfig
from tidelog.env.effects import EffectQueue, Flush
from tidelog.env.memory_disk import MemoryDisk
from tidelog.log.flushing import FlushLedger
from tidelog.log.segment import Segment
from tidelog.log.values import LogFlush


def _parts() -> tuple[MemoryDisk, EffectQueue, FlushLedger, Segment]:
    disk, effects = MemoryDisk(), EffectQueue()
    disk.make_dir("t-0")
    return disk, effects, FlushLedger(PARTITION, effects), Segment(disk, "t-0", 0, LogConfig())


def _subjects(effects: EffectQueue) -> list[LogFlush]:
    taken = [effect for effect in effects.take() if isinstance(effect, Flush)]
    return [effect.subject for effect in taken if isinstance(effect.subject, LogFlush)]


def test_only_the_last_answer_of_a_group_proves_it() -> None:
    """Goal: side files first, the log file last; nothing dirty gives no group."""
    disk, effects, ledger, segment = _parts()
    side = disk.open("side", create=True)
    ledger.add(side)
    segment.dirty = True
    ledger.request([segment], 7, TOPIC_ID)
    subjects = _subjects(effects)
    assert [subject.completes for subject in subjects] == [False, True]
    assert ledger.answered(subjects[0]) is None and not side.closed
    assert ledger.answered(subjects[1]) == 7 and side.closed
    ledger.request([segment], 7, TOPIC_ID)
    assert len(effects) == 0


def test_a_cut_voids_what_is_under_way_but_closes_its_files() -> None:
    """Goal: an old answer proves nothing, the next group does."""
    disk, effects, ledger, segment = _parts()
    side = disk.open("side", create=True)
    ledger.add(side)
    ledger.request([segment], 7, TOPIC_ID)
    ledger.on_truncation()
    segment.dirty = True
    ledger.request([segment], 5, TOPIC_ID)
    first, second = _subjects(effects)
    assert ledger.answered(first) is None and side.closed
    assert ledger.answered(second) == 5


def test_closing_releases_everything() -> None:
    """Goal: files under way and files not yet requested are closed."""
    disk, effects, ledger, segment = _parts()
    asked, waiting = disk.open("asked", create=True), disk.open("waiting", create=True)
    ledger.add(asked)
    ledger.request([segment], 1, TOPIC_ID)
    ledger.add(waiting)
    ledger.close()
    assert asked.closed and waiting.closed and len(effects) == 1
