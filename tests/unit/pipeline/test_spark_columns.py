"""The columns declared to Spark are those that the tasks make, with Spark's type names."""

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import IntegerType, StructType

from pyspark_tidelog_segments import TYPES_OF_MODE
from tidelog.errors import UsageError
from tidelog.pipeline.logs.scan import BATCH_SCHEMA, SEGMENT_RECORD_SCHEMA
from tidelog.pipeline.spark_columns import SOURCE_TYPES, chosen_columns, ddl
from tidelog.pipeline.topics.source import SOURCE_SCHEMA


@pytest.mark.parametrize(
    ("made", "declared"),
    [
        (SOURCE_SCHEMA, SOURCE_TYPES),
        (SEGMENT_RECORD_SCHEMA, TYPES_OF_MODE["records"]),
        (BATCH_SCHEMA, TYPES_OF_MODE["batches"]),
    ],
)
def test_spark_gets_the_columns_that_were_declared(made: pa.Schema, declared: dict[str, str]):
    fields = from_arrow_schema(made).fields
    assert [(each.name, each.dataType.simpleString()) for each in fields] == list(declared.items())


def test_a_schema_chooses_columns_and_their_types_must_be_right():
    types = {"a": "int", "b": "bigint"}
    assert chosen_columns(StructType().add("a", IntegerType()), types) == ["a"]
    with pytest.raises(UsageError, match="no column `b int`") as caught:
        chosen_columns(StructType().add("a", IntegerType()).add("b", IntegerType()), types)
    assert caught.value.hint == "the columns are a int, b bigint"
    assert ddl(types) == "a int, b bigint"
