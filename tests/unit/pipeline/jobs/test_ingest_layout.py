"""What keys and values of an ingest are: by the user, by the table, by a sample; and refusals."""

import pyarrow as pa
import pytest

from tests.unit.client.scripted_brokers import ScriptedCluster, ScriptedPartition
from tests.unit.pipeline.log_directories import batch
from tidelog.errors import UsageError
from tidelog.model import TopicPartition
from tidelog.pipeline.jobs.ingest_layout import (
    RAW_BYTES,
    SAMPLE_RECORDS,
    AskedLayout,
    check_asked,
    choose_layout,
    row_names,
)
from tidelog.pipeline.jobs.ingest_plan import IngestPlan, prepare
from tidelog.pipeline.tables.table_schema import existing_schema
from tidelog.pipeline.tables.upserts import Upsert
from tidelog.pipeline.typed.formats import Format
from tidelog.pipeline.typed.parsing import Layout
from tidelog.pipeline.typed.schema_text import parse_schema, schema_text

_SCHEMA = parse_schema("id bigint")
_JSON, _CSV = AskedLayout(Format.JSON), AskedLayout(Format.CSV, parse_schema("b string, a int"))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (AskedLayout(Format.RAW, _SCHEMA), "`--value-schema` has no effect on values of .* `raw`"),
        (AskedLayout(Format.STRING, _SCHEMA), "has no effect on values of format `string`"),
        (AskedLayout(Format.CSV), "the fields of CSV values have no names"),
        (AskedLayout(Format.CSV, parse_schema("a array<int>")), "field `a` .* has parts"),
    ],
)
def test_a_schema_without_a_use_and_a_format_that_needs_one_are_refused(asked, message):
    with pytest.raises(UsageError, match=message):
        check_asked("value", asked)


@pytest.mark.parametrize(
    ("asked", "there", "sample", "layout"),
    [
        (RAW_BYTES, None, [b"\xff"], Layout()),
        (AskedLayout(Format.STRING), None, [], Layout(Format.STRING, pa.string())),
        (_JSON, None, [b"x", None, b'{"id": 1}'], Layout(Format.JSON, _SCHEMA)),
        (_JSON, _SCHEMA, [], Layout(Format.JSON, _SCHEMA)),
        (AskedLayout(Format.JSON, _SCHEMA), None, [], Layout(Format.JSON, _SCHEMA)),
        (
            _CSV,
            parse_schema("a bigint, c date"),
            [],
            Layout(Format.CSV, parse_schema("a bigint, c date, b string"), ("b", "a")),
        ),
    ],
)
def test_what_is_asked_and_what_the_table_has_decide(asked, there, sample, layout):
    check_asked("value", asked)
    assert choose_layout("value", asked, there, sample) == layout


@pytest.mark.parametrize(
    ("asked", "there", "sample", "message"),
    [
        (_JSON, None, [], "no value to infer a schema from"),
        (_JSON, None, [b"x", None], "no JSON object among the first 2 records"),
        (RAW_BYTES, _SCHEMA, [], r"the values in the table are `struct<id: bigint>`"),
        (_JSON, pa.binary(), [], "the values in the table are `binary`"),
        (AskedLayout(Format.STRING), pa.binary(), [], "the values in the table are `binary`"),
        (RAW_BYTES, pa.string(), [], "those of format `raw` would be something else"),
        (AskedLayout(Format.JSON, _SCHEMA), None, [b"x", b"y"], "none of the first 2 values is"),
        (_CSV, None, [b"x"], "none of the first 1 values is `csv` by the schema"),
    ],
)
def test_what_cannot_be_is_refused(asked, there, sample, message):
    with pytest.raises(UsageError, match=message):
        choose_layout("value", asked, there, sample)


_KEY = Layout(Format.JSON, parse_schema("id bigint, at struct<x: int>, no string"))


def test_a_row_is_named_by_the_whole_key_or_by_fields_of_it():
    assert row_names(Upsert(), Layout()) == Upsert()
    assert row_names(Upsert(("no", "id")), _KEY) == Upsert(("no", "id"))
    assert row_names(Upsert(), Layout(Format.JSON, _SCHEMA)) == Upsert(("id",))


@pytest.mark.parametrize(
    ("fields", "key", "message"),
    [
        (("id",), Layout(), "names fields, and keys of format `raw` have none"),
        (("nix",), _KEY, "`--key nix` names no row: .* has no such field"),
        (("at",), _KEY, "`--key at` names no row: .* that field is `struct<x: int>`"),
        ((), _KEY, "that field is `struct"),
    ],
)
def test_keys_that_name_no_row_are_refused(fields, key, message):
    with pytest.raises(UsageError, match=message):
        row_names(Upsert(fields), key)


def test_a_wrong_format_writes_nothing_and_a_right_one_is_inferred(tmp_path):
    contents = [batch(0, value=b"x"), *(batch(10 * n, value=b'{"id": 1}') for n in range(1, 300))]
    with ScriptedCluster({TopicPartition("t", 0): ScriptedPartition(contents)}) as brokers:
        place = (brokers.bootstrap_servers, "t", tmp_path / "table")
        with pytest.raises(UsageError, match=f"none of the first {SAMPLE_RECORDS} keys is `csv`"):
            prepare(IngestPlan(*place, key=_CSV))
        assert not (tmp_path / "table").exists()
        prepared = prepare(IngestPlan(*place, value=AskedLayout(Format.JSON)))
        assert schema_text(prepared.value.type) == "id bigint"
        again = prepare(IngestPlan(*place, value=AskedLayout(Format.JSON)))
        assert again.value == prepared.value
    assert existing_schema(tmp_path / "table").field("value").type == _SCHEMA
