"""`spark.read.format("tidelog.segments")` as a user sees it, over directories of known batches."""

import pytest
from pyspark.errors import AnalysisException, PythonException

from tests.unit.pipeline.log_directories import batches, write_broker
from tidelog.cli.spark_failures import spark_failure
from tidelog.errors import UsageError

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Two brokers with two partitions; one file of the second broker's is damaged."""
    root = tmp_path_factory.mktemp("brokers")
    content = batches()
    for broker in (1, 2):
        log_dir = write_broker(root, broker, {"a-0": content[:5], "b-0": content[:5]}, 50)
        (log_dir / "a-0" / f"{50:020d}.log").write_bytes(b"".join(content[5:]))
    damaged = root / "node-2" / "data" / "a-0" / f"{50:020d}.log"
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 1
    damaged.write_bytes(data)
    return root


def _read(spark, directory, **options: str):
    reader = spark.read.format("tidelog.segments").option("path", str(directory))
    return reader.options(**options).load()


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("topic = 'a' and partition = 0 and broker = 1", 100),
        ("topic = 'b'", 100),
        ("topic = 'a' and offset < 50", 100),
        ("topic in ('b', 'c') and broker = 2 and offset between 10 and 19", 10),
    ],
)
def test_files_that_filters_leave_out_are_not_read(spark, directory, where, rows):
    """The damaged file would end the job."""
    assert _read(spark, directory, mode="records").where(where).count() == rows


def test_a_filter_on_base_offset_keeps_the_matching_batches(spark, directory):
    found = _read(spark, directory).where("base_offset >= 40 and topic = 'a'")
    assert sorted(row.base_offset for row in found.collect()) == sorted([*range(40, 100, 10)] * 2)


def test_damage_is_one_message_that_names_the_place(spark, directory):
    with pytest.raises(PythonException) as caught:
        _read(spark, directory, mode="records").count()
    message = spark_failure(str(caught.value)).message
    assert "(broker 2, `a-0`): batch with base offset 90" in message


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("nowhere", {}, "holds no log directory"),
        (".", {"topics": "c"}, "no broker's directory has a partition of `c`"),
        (".", {"mode": "rows"}, "`mode` is `rows`"),
        (".", {"topic": "a"}, "no option `topic`"),
    ],
)
def test_wrong_use_is_one_message_with_a_hint(spark, directory, path, options, message):
    with pytest.raises(AnalysisException) as caught:
        _read(spark, directory / path, **options).count()
    failure = spark_failure(str(caught.value))
    assert isinstance(failure, UsageError)
    assert message in failure.message
