"""DescribeLogDirs: the one directory, what lies in it, and how full its volume is."""

import pytest

from tests.unit.broker.api.wire_turns import shown, versions
from tidelog.env.disk import DiskSpace
from tidelog.errors import ErrorCode, StorageError
from tidelog.model import TopicPartition
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of

KEY = ApiKey.DESCRIBE_LOG_DIRS


def ask(wire, version, topics=None):
    """The only result."""
    wanted = None
    if topics is not None:
        wanted = tuple({"topic": name, "partitions": numbers} for name, numbers in topics.items())
    (result,) = wire.call(KEY, version, topics=wanted).results
    assert error_of(result.error_code) is ErrorCode.NONE
    return result


def partitions_of(result):
    return {(t.name, p.partition_index): p for t in result.topics for p in t.partitions}


@pytest.mark.parametrize("version", versions(KEY))
def test_every_hosted_partition_with_its_size(node, wire, version):
    log = node.node._directories.logs[TopicPartition("t", 1)]
    log.append_as_leader(build_batch([Record(1, None, b"v" * 100)]), 0, 1)
    result = ask(wire, version)
    found = partitions_of(result)
    assert set(found) == {("t", 0), ("t", 1)}
    assert (found["t", 0].partition_size, found["t", 1].partition_size) == (0, log.size_bytes)
    assert all((p.offset_lag, p.is_future_key) == (0, False) for p in found.values())
    assert result.log_dir == node.disk.root
    figures = shown(result, "total_bytes", "usable_bytes")
    assert figures == ({"total_bytes": -1, "usable_bytes": -1} if version >= 4 else {})


@pytest.mark.parametrize("version", versions(KEY))
def test_only_what_was_asked_for(wire, version):
    found = partitions_of(ask(wire, version, {"t": (1, 7), "absent": (0,)}))
    assert set(found) == {("t", 1)}
    assert ask(wire, version, {}).topics == ()


def test_the_volume_as_the_disk_knows_it(node, wire):
    node.disk.space = lambda: DiskSpace(1000, 10)
    result = ask(wire, 5)
    assert (result.total_bytes, result.usable_bytes, result.is_cordoned) == (1000, 10, False)


def test_a_disk_of_unknown_space_does_not_prevent_the_answer(node, wire):
    def fail():
        raise StorageError("", "stale handle")

    node.disk.space = fail
    assert ask(wire, 4).total_bytes == -1
