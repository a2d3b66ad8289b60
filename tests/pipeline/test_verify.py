"""The verdict finds what is planted: each fault on tiny frames, and none where there is none."""

import pytest

from tidelog.pipeline.jobs.verify import verify

pytestmark = pytest.mark.spark

COLUMNS = "partition int, offset bigint, crc bigint, sequence bigint, key binary"
TOPIC = [
    (0, 0, 11, 0, b"a"),
    (0, 1, 12, 1, b"b"),
    (0, 2, 13, 2, b"a"),
    (1, 0, 14, 3, b"c"),
    (1, 1, 15, 4, None),
]


def verdict(spark, ledger, seen):
    return verify(spark.createDataFrame(ledger, COLUMNS), spark.createDataFrame(seen, COLUMNS))


def test_a_topic_that_holds_what_was_acknowledged_is_clean(spark):
    found = verdict(spark, TOPIC, TOPIC)
    assert found.is_clean
    assert (found.acknowledged, found.read, found.unacknowledged) == (5, 5, 0)
    assert found.findings == ()


def test_a_record_that_is_nowhere_is_lost(spark):
    found = verdict(spark, TOPIC, TOPIC[:4])
    assert (found.lost, found.duplicated, found.misplaced) == (1, 0, 0)
    assert "record 4" in found.findings[0]


def test_a_record_that_stands_twice_is_duplicated(spark):
    found = verdict(spark, TOPIC, [*TOPIC, (1, 2, 15, 4, None)])
    assert (found.lost, found.duplicated, found.misplaced) == (0, 1, 0)


def test_a_record_at_another_offset_or_with_another_checksum_is_misplaced(spark):
    moved = [*TOPIC[:3], (1, 0, 15, 4, None), (1, 1, 14, 3, b"c")]
    assert verdict(spark, TOPIC, moved).misplaced == 2
    changed = [*TOPIC[:4], (1, 1, 99, 4, None)]
    found = verdict(spark, TOPIC, changed)
    assert (found.lost, found.misplaced) == (0, 1)


def test_a_hole_in_the_offsets_is_a_gap(spark):
    found = verdict(spark, [TOPIC[0], TOPIC[2]], [TOPIC[0], TOPIC[2]])
    assert found.offset_gaps == 1
    assert not found.is_clean


def test_a_key_that_is_not_in_the_producers_order_is_told(spark):
    swapped = [(0, 0, 13, 2, b"a"), (0, 1, 12, 1, b"b"), (0, 2, 11, 0, b"a")]
    assert verdict(spark, swapped, swapped).order_violations == 1


def test_a_record_that_nobody_acknowledged_is_counted_apart(spark):
    found = verdict(spark, TOPIC[:4], TOPIC)
    assert found.unacknowledged == 1
    assert found.is_clean
