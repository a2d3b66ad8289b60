"""The list of segments: what covers an offset, what goes, and that one is always active."""

from tidelog.config import LogConfig
from tidelog.env.memory_disk import MemoryDisk
from tidelog.log.segment import Segment
from tidelog.log.segments import SegmentList


def _segments(*bases: int) -> SegmentList:
    disk = MemoryDisk()
    disk.make_dir("t-0")
    return SegmentList([Segment(disk, "t-0", base, LogConfig()) for base in bases])


def _bases(segments: SegmentList) -> list[int]:
    return [segment.base_offset for segment in segments]


def test_an_offset_is_covered_by_the_segment_with_the_greatest_base_at_or_below_it() -> None:
    segments = _segments(5, 10, 20)
    for offset, base in ((0, 5), (5, 5), (9, 5), (10, 10), (19, 10), (20, 20), (99, 20)):
        assert segments.covering(offset)[0].base_offset == base


def test_whole_segments_go_below_an_offset_and_the_active_one_stays() -> None:
    segments = _segments(5, 10, 20)
    assert segments.drop_below(9) == []
    assert [segment.base_offset for segment in segments.drop_below(19)] == [5]
    assert (_bases(segments), segments.first_base_offset) == ([10, 20], 10)
    assert [segment.base_offset for segment in segments.drop_below(99)] == [10]
    assert segments.active.base_offset == 20


def test_the_last_one_is_active() -> None:
    segments = _segments(5, 10)
    assert segments.drop_active().base_offset == 10
    assert segments.active.base_offset == 5
    segments.restart(_segments(30).active)
    assert (_bases(segments), segments.active.base_offset) == ([30], 30)
    segments.check("t-0")
