"""Finding replicas and what their brokers promised."""

from dataclasses import replace

import pytest

from tests.fixtures import unpack_kafka_node
from tests.unit.pipeline.log_directories import batches, write_broker
from tidelog.errors import UsageError
from tidelog.pipeline.logs.layout import find_replicas, plan_tasks, tasks_for_cores


def _cluster(root, brokers=(1, 2)):
    for broker in brokers:
        write_broker(root, broker, {"t-0": batches(), "t-1": batches(2), "u-0": []}, 70)
    return root


def test_a_cluster_directory_and_its_log_directories_are_the_same(tmp_path):
    root = _cluster(tmp_path)
    found = find_replicas([root])
    assert [(one.topic, one.partition, one.broker) for one in found] == [
        ("t", 0, 1),
        ("t", 0, 2),
        ("t", 1, 1),
        ("t", 1, 2),
        ("u", 0, 1),
        ("u", 0, 2),
    ]
    assert found == find_replicas([root / "node-2" / "data", root / "node-1" / "data"])
    assert {one.high_watermark for one in found} == {70}


def test_a_directory_of_kafka_is_understood(tmp_path):
    found = find_replicas([unpack_kafka_node("node1", tmp_path)])
    assert {one.broker for one in found} == {1}
    assert "__cluster_metadata" not in {one.topic for one in found}
    (plain,) = (one for one in found if (one.topic, one.partition) == ("plain", 0))
    assert (plain.log_start, plain.high_watermark, len(plain.segments)) == (0, 218, 2)
    (metadata,) = find_replicas([tmp_path], ["__cluster_metadata"])
    assert metadata.high_watermark == 0


def test_log_starts_and_cleaned_offsets_are_read(tmp_path):
    root = _cluster(tmp_path, (1,))
    log_dir = root / "node-1" / "data"
    (log_dir / "log-start-offset-checkpoint").write_text("0\n1\nt 0 20\n")
    (log_dir / "cleaner-offset-checkpoint").write_text("0\n1\nt 1 10\n")
    found = {(one.topic, one.partition): one for one in find_replicas([root], ["t"])}
    assert (found["t", 0].log_start, found["t", 0].cleaned_to) == (20, 0)
    assert (found["t", 1].log_start, found["t", 1].cleaned_to) == (0, 10)


def test_an_empty_checkpoint_is_one_that_was_never_written(tmp_path):
    root = _cluster(tmp_path, (1,))
    (root / "node-1" / "data" / "cleaner-offset-checkpoint").write_text("")
    assert {one.cleaned_to for one in find_replicas([root])} == {0}


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_a_directory_without_log_directories_is_refused(tmp_path, name):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=f"{name}` holds no log directory"):
        find_replicas([tmp_path / name])


def test_a_broker_found_twice_is_refused(tmp_path):
    root = _cluster(tmp_path)
    with pytest.raises(UsageError, match="broker 1 is found in"):
        find_replicas([root, root / "node-1"])


def test_an_unknown_topic_is_refused(tmp_path):
    with pytest.raises(UsageError, match="partition of `v`"):
        find_replicas([_cluster(tmp_path)], ["t", "v"])


def test_tasks_hold_every_segment_once_and_about_as_much_as_wanted(tmp_path):
    replicas = find_replicas([_cluster(tmp_path)])
    every = [place for replica in replicas for place in replica.segments]
    size_bytes = len(b"".join(batches()))
    tasks = plan_tasks(replicas, 2 * size_bytes)
    assert [place for task in tasks for place in task] == every
    assert len(tasks) == 2
    assert [len(task) for task in plan_tasks(replicas, 1)][:2] == [1, 1]
    assert plan_tasks([]) == []


def test_every_core_gets_a_few_tasks_where_there_is_enough_to_do(tmp_path):
    (replica, *_) = find_replicas([_cluster(tmp_path)])
    (place,) = replica.segments

    def tasks(cores, size_bytes, files):
        sized = replace(place, size_bytes=size_bytes)
        return len(tasks_for_cores([replace(replica, segments=(sized,) * files)], cores))

    assert tasks(2, 18 << 20, 6) == 6  # Not all in one task, though they would fit into one.
    assert tasks(2, 4 << 20, 6) == 3  # What a task costs by itself stays small beside its work.
    assert tasks(2, 32 << 20, 128) == 32  # Large tasks stay bounded, however few the cores.
    assert tasks(64, 32 << 20, 128) == 128
    assert tasks_for_cores([], 2) == []


def test_what_cannot_be_read_is_named(tmp_path):
    """A link that leads to itself: no user can follow it."""
    log_dir = write_broker(tmp_path, 1, {"t-0": batches(1)}, 10)
    link = log_dir / "t-0" / f"{50:020d}.log"
    link.symlink_to(link)
    with pytest.raises(UsageError) as caught:
        find_replicas([tmp_path])
    assert "cannot be read" in caught.value.message
    assert "run this as a user" in caught.value.hint
