"""`tidelog spark export`: whole directories of Parquet files, or none."""

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PythonException

from tests.unit.pipeline.log_directories import batches, write_broker, write_segment
from tidelog.cli.spark_failures import spark_failure
from tidelog.errors import UsageError
from tidelog.pipeline.jobs.export import Export, choose_replicas, export, publish
from tidelog.pipeline.logs.layout import find_replicas

pytestmark = pytest.mark.spark


@pytest.fixture
def directory(tmp_path):
    """The second broker is ahead, and its log goes beyond what it knows to be committed."""
    write_broker(tmp_path / "logs", 1, {"a-0": batches(5), "b-0": batches(2)}, 20)
    write_broker(tmp_path / "logs", 2, {"a-0": batches(5)}, 40)
    return tmp_path / "logs"


def test_every_committed_record_is_there_once(spark, directory, tmp_path):
    done = export(spark, [directory], None, tmp_path / "deep" / "out")
    assert done.partitions == (Export("a", 0, 2, 0, 40, 40), Export("b", 0, 1, 0, 20, 20))
    assert (done.files, done.records) == (1, 60)
    found = pq.read_table(tmp_path / "deep" / "out")
    places = zip(*(found[name].to_pylist() for name in ("topic", "offset")), strict=True)
    expected = [("a", offset) for offset in range(40)] + [("b", offset) for offset in range(20)]
    assert list(places) == expected
    read = spark.read.parquet(str(tmp_path / "deep" / "out"))
    of_source = spark.read.format("tidelog.segments").option("mode", "records")
    wanted = of_source.option("path", str(directory)).load()
    assert [(one.name, one.dataType) for one in read.schema] == [
        (one.name, one.dataType) for one in wanted.schema
    ]
    kept = "(broker = 2 and offset < 40) or (topic = 'b' and offset < 20)"
    assert read.exceptAll(wanted.where(kept)).count() == 0
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]


def test_a_failed_export_leaves_nothing(spark, directory, tmp_path):
    damaged = directory / "node-2" / "data" / "a-0" / f"{0:020d}.log"
    data = bytearray(damaged.read_bytes())
    data[100] ^= 1
    damaged.write_bytes(data)
    with pytest.raises(PythonException) as caught:
        export(spark, [directory], ["a"], tmp_path / "out")
    message = spark_failure(str(caught.value)).message
    assert "(broker 2, `a-0`): batch with base offset 0" in message
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]


def test_missing_offsets_fail_an_export_that_does_not_allow_them(spark, directory, tmp_path):
    (directory / "node-2" / "data" / "a-0" / f"{0:020d}.log").write_bytes(b"".join(batches(3)))
    with pytest.raises(PythonException) as caught:
        export(spark, [directory], ["a"], tmp_path / "out")
    failure = spark_failure(str(caught.value))
    assert "(broker 2, `a-0`): no batch holds the offsets [30, 40)" in failure.message
    assert "`tidelog spark audit`" in failure.hint
    done = export(spark, [directory], ["a"], tmp_path / "out", allow_gaps=True)
    assert done.partitions == (Export("a", 0, 2, 0, 40, 30),)


def test_a_log_begins_with_its_first_segment(spark, directory, tmp_path):
    """Retention deletes whole segments, and brokers keep a checkpoint of a log's start only where
    it lies within one."""
    segment = directory / "node-2" / "data" / "a-0" / f"{0:020d}.log"
    segment.unlink()
    write_segment(segment.parent, batches(5)[2:], base_offset=20)
    done = export(spark, [directory], ["a"], tmp_path / "out")
    assert done.partitions == (Export("a", 0, 2, 20, 40, 20),)


def test_a_directory_that_is_there_is_not_touched(spark, directory, tmp_path):
    with pytest.raises(UsageError, match="exists already"):
        export(spark, [directory], None, directory)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be written"):
        export(spark, [directory], None, tmp_path / "file" / "out")


def test_what_a_killed_attempt_left_is_not_published(tmp_path):
    beside = tmp_path / "out.part-1"
    beside.mkdir()
    for name in ("named", "left"):
        (beside / name).touch()
    publish(beside, tmp_path / "out", {"named"})
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["out", "out/named"]


def test_of_equal_replicas_the_lowest_broker_is_read(tmp_path):
    for broker in (3, 1, 2):
        write_broker(tmp_path, broker, {"a-0": batches(1)}, 10 if broker < 3 else 9)
    assert [one.broker for one in choose_replicas(find_replicas([tmp_path]))] == [1]
