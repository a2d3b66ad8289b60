"""Continuity: every violation is named, and nothing else is one."""

import pyarrow as pa
import pytest

from tidelog.model import TopicPartition
from tidelog.pipeline.tables.continuity import (
    CONTINUITY_SCHEMA,
    Continuity,
    Observer,
    TablePosition,
    continuity_table,
    judge,
    positions_after,
)
from tidelog.pipeline.values import OffsetRange

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def _rows(*rows, partition=0):
    """(offset, epoch) or (offset, epoch, is_control) as the tasks see them."""
    return pa.RecordBatch.from_pylist(
        [
            {
                "topic": "t",
                "partition": partition,
                "offset": row[0],
                "leader_epoch": row[1],
                "is_control": len(row) > 2,
            }
            for row in rows
        ],
        schema=pa.schema(
            [
                ("topic", pa.string()),
                ("partition", pa.int32()),
                ("offset", pa.int64()),
                ("leader_epoch", pa.int32()),
                ("is_control", pa.bool_()),
            ]
        ),
    )


def _judge(*batches, start=10, end=14, before=None, compacted=False):
    """The account of partition 0 when each batch comes from a task of its own."""
    pieces = []
    for batch in batches:
        observer = Observer()
        observer.observe(batch)
        pieces += observer.pieces()
    (line,) = judge(
        [OffsetRange("t", 0, start, end)],
        pieces,
        {} if before is None else {P0: before},
        compacted=compacted,
        batch=7,
    )
    return line


WHOLE = _rows((10, 1), (11, 1), (12, 2), (13, 2))


def test_a_whole_range_is_ok():
    line = _judge(WHOLE, before=TablePosition(10, 1))
    assert line == Continuity("t", 0, 10, 14, 4, 0, 0, 1, 2, 7, "ok")
    assert not line.is_violation


def test_the_order_of_tasks_does_not_matter():
    first, second = _rows((10, 1), (11, 1)), _rows((12, 2), (13, 2))
    assert _judge(second, first) == _judge(first, second) == _judge(WHOLE)


def test_control_records_account_for_offsets_and_are_no_rows():
    line = _judge(_rows((10, 1), (11, 1, True), (12, 1), (13, 1, True)))
    assert (line.rows, line.control_rows, line.gap_rows, line.status) == (2, 2, 0, "ok")


@pytest.mark.parametrize(
    ("rows", "gap_rows"),
    [
        ([(11, 1), (12, 1), (13, 1)], 1),
        ([(10, 1), (13, 1)], 2),
        ([(10, 1), (11, 1), (12, 1)], 1),
        ([], 4),
    ],
    ids=["at-the-start", "inside", "at-the-end", "everything"],
)
def test_missing_offsets_are_a_gap_unless_the_topic_is_compacted(rows, gap_rows):
    line = _judge(_rows(*rows))
    assert (line.status, line.gap_rows, line.is_violation) == ("GAP", gap_rows, True)
    excused = _judge(_rows(*rows), compacted=True)
    assert (excused.status, excused.gap_rows, excused.is_violation) == (
        "compacted",
        gap_rows,
        False,
    )


def test_a_range_that_begins_behind_the_table_is_a_gap_even_when_compacted():
    assert _judge(WHOLE, before=TablePosition(9, 1), compacted=True).status == "GAP"


@pytest.mark.parametrize(
    "batches",
    [
        [_rows((10, 1), (11, 1), (11, 1), (12, 1), (13, 1))],
        [_rows((10, 1), (11, 1), (11, 1), (13, 1))],
        [_rows((10, 1), (11, 1), (12, 1)), _rows((12, 1), (13, 1))],
        [WHOLE, WHOLE],
        [_rows((9, 1), (10, 1), (11, 1), (12, 1))],
        [_rows((11, 1), (12, 1), (13, 1), (14, 1))],
    ],
    ids=[
        "one-more",
        "instead-of-another",
        "two-tasks",
        "all-twice",
        "before-the-plan",
        "behind-it",
    ],
)
def test_what_came_twice_or_unasked_is_a_duplicate(batches):
    assert _judge(*batches).status == "DUPLICATE"


def test_what_the_table_has_is_a_duplicate():
    assert _judge(WHOLE, before=TablePosition(11, 1)).status == "DUPLICATE"


def test_a_partition_without_a_plan_is_a_duplicate():
    observer = Observer()
    observer.observe(_rows((5, 1), partition=1))
    lines = judge([], observer.pieces(), {}, compacted=True, batch=0)
    assert [(line.partition, line.status) for line in lines] == [(1, "DUPLICATE")]


@pytest.mark.parametrize(
    ("batches", "before"),
    [
        ([_rows((10, 2), (11, 1), (12, 1), (13, 1))], None),
        ([_rows((10, 2), (11, 2)), _rows((12, 1), (13, 1))], None),
        ([_rows((10, 1), (11, 1), (12, 1), (13, 1))], TablePosition(10, 2)),
    ],
    ids=["inside", "between-tasks", "since-the-batch-before"],
)
def test_an_epoch_that_goes_back_is_a_violation(batches, before):
    assert _judge(*batches, before=before).status == "EPOCH_REGRESSION"


def test_a_new_partition_begins_where_it_is_found():
    line = _judge(_rows((3, 0), (4, 0)), start=-1, end=5)
    assert (line.start, line.gap_rows, line.status) == (3, 0, "ok")
    assert (
        _judge(_rows((3, 0), (4, 0)), start=-1, end=5, before=TablePosition(2, 0)).status == "GAP"
    )


def test_an_observer_adds_up_batch_after_batch():
    whole, pieces = Observer(), Observer()
    whole.observe(WHOLE)
    for row in range(4):
        pieces.observe(WHOLE.slice(row, 1))
    pieces.observe(WHOLE.slice(0, 0))
    assert pieces.pieces() == whole.pieces()
    mixed = Observer()
    mixed.observe(pa.concat_batches([_rows((1, 0)), _rows((1, 0), partition=1), _rows((2, 0))]))
    assert [(one.partition, one.first, one.last) for one in mixed.pieces()] == [
        (0, 1, 2),
        (1, 1, 1),
    ]


def test_positions_move_with_every_account():
    lines = [
        Continuity("t", 0, 10, 14, 4, 0, 0, 1, 2, 7, "ok"),
        Continuity("t", 1, 0, 5, 0, 0, 5, None, None, 7, "compacted"),
    ]
    after = positions_after({P0: TablePosition(10, 3)}, lines)
    assert after == {P0: TablePosition(14, 3), P1: TablePosition(5, -1)}


def test_an_account_is_a_table_and_a_line():
    line = _judge(WHOLE)
    rows = continuity_table([line], "the-app")
    assert rows.schema == CONTINUITY_SCHEMA
    assert rows.to_pylist()[0]["app"] == "the-app"
    assert str(line) == (
        "ok `t-0` [10, 14) in batch 7: 4 rows, 0 control records, 0 missing, epochs 1 to 2"
    )
