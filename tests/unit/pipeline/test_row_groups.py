"""Row groups: full at a bound of rows or bytes, empty after they were taken."""

import pyarrow as pa
import pytest

from tidelog.pipeline import row_groups
from tidelog.pipeline.row_groups import RowGroup, dictionary_columns


@pytest.mark.parametrize(("bound", "most"), [("_ROW_GROUP_ROWS", 3), ("_ROW_GROUP_BYTES", 24)])
def test_a_row_group_is_full_at_either_bound_and_holds_all_rows(monkeypatch, bound, most):
    monkeypatch.setattr(row_groups, bound, most)
    group = RowGroup()
    assert group.take() is None
    for start, is_full in ((0, False), (2, True)):
        group.add(pa.RecordBatch.from_pydict({"offset": pa.array([start, start + 1])}))
        assert group.is_full is is_full
    assert group.take().column("offset").to_pylist() == [0, 1, 2, 3]
    assert (group.is_full, group.take()) == (False, None)


def test_columns_of_unique_values_get_no_dictionary():
    schema = pa.schema([("offset", pa.int64()), ("key", pa.binary()), ("value", pa.binary())])
    assert dictionary_columns(schema) == ["key"]
