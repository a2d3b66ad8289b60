"""Directories of partitions: names, renames, and when the renamed ones go."""

import re

import pytest

from tests.unit.log.harness import (
    PARTITION,
    TOPIC_ID,
    LogBench,
    deleted_and_made_anew,
    open_directory,
)
from tidelog.config import LogConfig
from tidelog.log.partition_directories import parse_partition_name
from tidelog.log.pieces import finish
from tidelog.model import METADATA_PARTITION, TopicPartition


def test_deletion_renames_first() -> None:
    """Goal: a topic can be created again at once; the old directory goes later, also after a
    restart, and queued effects of the old log do not touch the new one's durability."""
    bench = LogBench()
    bench.append(count=3)
    bench.log.request_flush()
    bench.directory.schedule_delete(PARTITION)
    assert PARTITION not in bench.directory.logs
    renamed = [name for name in bench.disk.list_dir() if name.endswith("-delete")]
    assert len(renamed) == 1 and renamed[0].startswith("orders-3.")
    bench.directory.create(PARTITION, type(TOPIC_ID)(bytes(15) + b"\x07"), bench.config)
    bench.append()
    bench.settle()
    assert bench.log.recovery_point == 0
    bench.log.request_flush()
    bench.settle()
    assert bench.log.recovery_point == 1
    bench.reopen_after_kill()
    assert bench.log.log_end_offset == 1
    finish(bench.directory.forget_renamed())
    assert bench.directory.clear_renamed(10) == 0
    bench.settle()
    assert bench.directory.clear_renamed(10) == 1
    assert not bench.disk.exists(renamed[0])


def test_a_renamed_directory_outlives_the_checkpoints_that_speak_of_it_on_the_device() -> None:
    """Goal: it is the only sign that they are stale; a kill before they are written finds it."""
    bench = deleted_and_made_anew()
    bench.append(count=2)
    finish(bench.directory.forget_renamed())
    bench.directory.checkpoint_recovery_points()
    assert bench.directory.clear_renamed(10) == 0
    log = bench.reopen_after_kill()
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (0, 0, 2)


def test_nothing_is_written_when_nothing_was_renamed() -> None:
    bench = LogBench()
    bench.settle()
    finish(bench.directory.forget_renamed())
    assert bench.effects.take() == []
    bench.directory.schedule_delete(PARTITION)
    finish(bench.directory.forget_renamed())
    assert len(bench.effects.take()) == 3
    finish(bench.directory.forget_renamed())
    assert bench.effects.take() == []


def test_deleting_the_same_name_twice() -> None:
    """Goal: names of renamed directories never collide, across restarts either."""
    bench = LogBench()
    for _ in range(2):
        bench.directory.schedule_delete(PARTITION)
        bench.directory.create(PARTITION, TOPIC_ID, bench.config)
    bench.effects.take()
    bench.reopen()
    bench.directory.schedule_delete(PARTITION)
    assert bench.directory.clear_renamed(10) == 0
    finish(bench.directory.forget_renamed())
    bench.settle()
    assert [bench.directory.clear_renamed(2) for _ in range(3)] == [2, 1, 0]


def test_a_log_that_is_set_aside_is_kept_and_not_opened_again() -> None:
    """Goal: an operator finds its files under the name with `-stray`, also a second time, also
    after a restart; and Kafka, which does not start on names that it does not know, may take the
    disk at any moment."""
    bench = LogBench()
    for count in (1, 2, 3):
        bench.append()
        bench.settle()
        bench.directory.set_aside(PARTITION)
        (name,) = (name for name in bench.disk.list_dir() if "aside" in name)
        assert re.fullmatch(r"orders-3\.[^.]+-stray", name)
        finish(bench.directory.forget_renamed())
        bench.settle()
        assert bench.directory.clear_renamed(10) == 1
        strays = [name for name in bench.disk.list_dir() if name.endswith("-stray")]
        assert len(strays) == count
        assert all(bench.disk.exists(f"{name}/{0:020}.log") for name in strays)
        bench.directory.create(PARTITION, TOPIC_ID, LogConfig())
        bench.reopen()


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("orders-3", TopicPartition("orders", 3)),
        ("a-b-12", TopicPartition("a-b", 12)),
        ("__cluster_metadata-0", METADATA_PARTITION),
        ("orders-3.00000000000000000000000000000001-delete", None),
        ("orders-3-stray", None),
        ("orders", None),
        ("-1", None),
        ("or ders-1", None),
        ("orders-x", None),
        ("lost+found", None),
    ],
)
def test_partition_names(name: str, partition: TopicPartition | None) -> None:
    """Goal: only Kafka's directory names are partitions."""
    assert parse_partition_name(name) == partition


def test_a_directory_that_was_no_log_is_not_deleted() -> None:
    """Goal: only what was renamed from a partition's directory goes."""
    bench = LogBench()
    for name in ("things-delete", "things.0-delete", "things.aside-stray"):
        bench.disk.make_dir(name)
    bench.reopen_cleanly()
    assert not bench.directory.renamed.is_stale


def test_a_file_with_the_name_of_a_partition_is_left_alone() -> None:
    """Goal: `backup-2024` is not damage of a log, and the start says that it is there."""
    bench = LogBench()
    bench.disk.replace("backup-2024", b"notes")
    bench.append()
    for reopen in (bench.reopen_cleanly, bench.reopen_after_kill):
        bench.trace.events.clear()
        assert reopen().log_end_offset == 1
        assert not bench.directory.damaged
        (line,) = [line for line in bench.trace.take_lines() if "backup-2024" in line]
        assert "ignored" in line and "is a file and no directory" in line
        assert bench.disk.read_file("backup-2024") == b"notes"


@pytest.mark.parametrize("has_records", [True, False])
def test_a_file_in_the_place_of_a_log_costs_that_log_alone(has_records: bool) -> None:
    """Goal: with durable records it is damage, and repaired as such. The file stays."""
    bench = LogBench()
    other = TopicPartition("sound", 0)
    bench.directory.create(other, TOPIC_ID, bench.config)
    if has_records:
        bench.append()
    bench.stop()
    bench.disk.delete(str(PARTITION))
    bench.disk.replace(str(PARTITION), b"notes")
    bench.directory = open_directory(bench.disk)
    assert list(bench.directory.logs) == [other]
    assert (PARTITION in bench.directory.damaged) is has_records
    if has_records:
        assert "is a file" in bench.directory.damaged[PARTITION].cause
        finish(bench.directory.repaired(PARTITION, TOPIC_ID, bench.config))
    else:
        bench.directory.create(PARTITION, TOPIC_ID, bench.config)
    assert bench.append() == 0
    assert bench.disk.read_file(f"{PARTITION}.corrupt") == b"notes"
