"""The topic against the acknowledgement log: clean ones are clean, and each planted fault is
counted as what it is and as nothing else."""

from zlib import crc32

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidelog.pipeline.jobs.verify import Verification, sightings, verify

pytestmark = pytest.mark.spark

_ROW = "partition int, offset bigint, crc bigint, sequence bigint, key binary"
_Row = tuple[int, int, int, int | None, bytes | None]

# Six records of two keys in two partitions, and one without a key.
_RECORDS: list[_Row] = [
    (0, 0, 100, 0, b"a"),
    (0, 1, 101, 2, b"a"),
    (0, 2, 102, 5, b"a"),
    (1, 0, 200, 1, b"b"),
    (1, 1, 200, 3, b"b"),
    (1, 2, 202, 4, None),
]


def _rows(spark: SparkSession, rows: list[_Row]) -> DataFrame:
    return spark.createDataFrame(rows, _ROW)


def _verify(spark: SparkSession, acknowledged: list[_Row], topic: list[_Row]) -> Verification:
    return verify(_rows(spark, acknowledged), _rows(spark, topic))


def _faults(found: Verification) -> dict[str, int]:
    names = ("lost", "duplicated", "misplaced", "unacknowledged", "offset_gaps", "order_violations")
    return {name: getattr(found, name) for name in names if getattr(found, name)}


def test_a_topic_with_all_acknowledged_records_is_clean(spark):
    found = _verify(spark, _RECORDS, _RECORDS)
    assert found.is_clean
    assert (found.acknowledged, found.read) == (6, 6)
    assert _faults(found) == {}
    assert found.findings == ()


def test_nothing_at_all_is_clean(spark):
    found = _verify(spark, [], [])
    assert found.is_clean
    assert (found.acknowledged, found.read) == (0, 0)


def test_a_lost_record_is_found_also_at_the_end(spark):
    found = _verify(spark, _RECORDS, [row for row in _RECORDS if row[3] not in (0, 4)])
    assert _faults(found) == {"lost": 2}
    assert not found.is_clean
    assert found.findings == (
        "record 0: acknowledged at 0@0 (crc 00000064), found at no place",
        "record 4: acknowledged at 1@2 (crc 000000ca), found at no place",
    )


def test_a_record_lost_in_the_middle_leaves_a_gap(spark):
    found = _verify(spark, _RECORDS, [row for row in _RECORDS if row[3] != 3])
    assert _faults(found) == {"lost": 1, "offset_gaps": 1}


def test_a_record_that_stands_twice_is_duplicated(spark):
    topic = [*_RECORDS, (1, 3, 202, 4, None), (1, 4, 202, 4, None)]
    found = _verify(spark, _RECORDS, topic)
    assert _faults(found) == {"duplicated": 2}
    assert found.read == 8
    assert "found at 1@2 (crc 000000ca), 1@3 (crc 000000ca), 1@4" in found.findings[0]


def test_a_duplicate_of_a_keyed_record_breaks_its_order_too(spark):
    found = _verify(spark, _RECORDS, [*_RECORDS, (1, 3, 200, 1, b"b")])
    assert _faults(found) == {"duplicated": 1, "order_violations": 1}


def test_a_record_elsewhere_is_misplaced_and_not_lost(spark):
    moved = [(1, 3, 202, 4, None) if row[3] == 4 else row for row in _RECORDS]
    found = _verify(spark, _RECORDS, moved)
    assert _faults(found) == {"misplaced": 1, "offset_gaps": 1}


def test_two_records_that_changed_places_are_both_misplaced(spark):
    """Equal values: only the sequence differs."""
    topic = [row for row in _RECORDS if row[0] == 0]
    topic += [(1, 1, 200, 1, b"b"), (1, 0, 200, 3, b"b"), (1, 2, 202, 4, None)]
    found = _verify(spark, _RECORDS, topic)
    assert _faults(found) == {"misplaced": 2, "order_violations": 1}


def test_another_checksum_is_misplaced(spark):
    changed = [(1, 2, 999, 4, None) if row[3] == 4 else row for row in _RECORDS]
    assert _faults(_verify(spark, _RECORDS, changed)) == {"misplaced": 1}


def test_unacknowledged_records_are_counted_apart(spark):
    """One with a sequence, one without: neither is a fault."""
    topic = [*_RECORDS, (0, 3, 103, 6, b"a"), (0, 4, 104, None, None)]
    found = _verify(spark, _RECORDS, topic)
    assert _faults(found) == {"unacknowledged": 2}
    assert found.is_clean


def test_an_offset_acknowledged_twice_cannot_hold_both(spark):
    acknowledged = [*_RECORDS, (1, 2, 303, 6, None)]
    assert _faults(_verify(spark, acknowledged, _RECORDS)) == {"lost": 1}


def test_a_key_in_two_partitions_has_no_order(spark):
    moved = [(0, 3, 200, 3, b"b") if row[3] == 3 else row for row in _RECORDS]
    moved = [(1, 1, 202, 4, None) if row[3] == 4 else row for row in moved]
    assert _faults(_verify(spark, moved, moved)) == {"order_violations": 1}


def test_records_are_recognised_by_their_header(spark):
    schema = (
        "partition int, offset bigint, key binary, value binary, "
        "headers array<struct<key:string,value:binary>>"
    )
    records = spark.createDataFrame(
        [
            (3, 7, b"k", b"value", [("other", b"1"), ("tidelog.sequence", b"42")]),
            (3, 8, None, b"value", [("other", b"1")]),
            (3, 9, None, None, None),
        ],
        schema,
    )
    assert [tuple(row) for row in sightings(records).collect()] == [
        (3, 7, crc32(b"value"), 42, b"k"),
        (3, 8, crc32(b"value"), None, None),
        (3, 9, None, None, None),
    ]
