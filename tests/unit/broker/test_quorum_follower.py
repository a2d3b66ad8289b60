"""Committed metadata is published in slices, and in whole batches."""

from itertools import pairwise

import pytest

from tidelog.broker.metadata_feed import MetadataFeed
from tidelog.broker.metadata_snapshots import CommittedMetadata, SnapshotReading
from tidelog.errors import ErrorCode
from tidelog.limits import MAX_RECORDS_PER_TURN
from tidelog.sim.engine.client import SimClient
from tidelog.sim.engine.world import World

PER_TOPIC = 50


TOPICS = [f"t{number}" for number in range(3 * MAX_RECORDS_PER_TURN // PER_TOPIC)]


def world_of_topics(**settings: str) -> World:
    """One node with all topics."""
    given = {name.replace("_", "."): value for name, value in settings.items()}
    world = World(1, nodes=1, settings={"default.replication.factor": "1", **given})
    world.start_all()
    world.run_until(lambda: 1 in world.hosts[1].node.broker.image.brokers)
    world.run_until(lambda: world.hosts[1].node.broker.image.brokers[1].active)
    client = SimClient(world, 1)
    for name in TOPICS:
        assert client.create_topic(name, PER_TOPIC, 1) == ErrorCode.NONE
    return world


def test_a_node_that_starts_publishes_its_log_in_slices() -> None:
    """Goal: bounded work in a tick, however much is committed, and no batch in two parts."""
    world = world_of_topics()
    world.kill(1)
    world.start(1)
    host = world.hosts[1]
    known = [host.node.broker.image.offset]
    complete = [True]

    def all_known() -> bool:
        image = host.node.broker.image
        if image.offset != known[-1]:
            known.append(image.offset)
            sizes = {len(topic.partitions) for topic in image.topics_by_id.values()}
            complete.append(sizes <= {PER_TOPIC})
        return len(image.topics_by_id) == len(TOPICS)

    world.run_until(all_known)
    steps = [after - before for before, after in pairwise(known)]
    assert max(steps) <= MAX_RECORDS_PER_TURN + PER_TOPIC
    assert len(steps) >= 3
    assert all(complete)


def test_a_snapshot_is_read_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: bounded work in a tick, and nothing of it is published before all of it is read."""
    world = world_of_topics(metadata_log_max_snapshot_interval_ms="2000")
    world.driver.check_every = 0
    host = world.hosts[1]

    def has_all() -> bool:
        latest = host.node.broker.quorum.latest_snapshot
        return latest is not None and latest.end_offset > len(TOPICS) * PER_TOPIC

    world.run_until(has_all, 60_000)
    world.kill(1)
    # By slice: how many records, and how many topics were known.
    slices: list[tuple[int, int]] = []
    read = SnapshotReading.read

    def reading(self: SnapshotReading, most: int) -> int:
        count = read(self, most)
        slices.append((count, len(host.node.broker.image.topics_by_id)))
        return count

    monkeypatch.setattr(SnapshotReading, "read", reading)
    world.start(1)
    world.run_until(lambda: len(host.node.broker.image.topics_by_id) == len(TOPICS))
    assert sum(count for count, _ in slices) > len(TOPICS) * PER_TOPIC
    assert max(count for count, _ in slices) <= MAX_RECORDS_PER_TURN
    assert {known for _, known in slices} == {0}


def test_a_long_batch_is_read_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: bounded work in a tick for a topic whose one batch is longer, and nothing of it is
    published before all of it is read, also where a small batch was read before it."""
    world = World(1, nodes=1, settings={"default.replication.factor": "1"})
    world.driver.check_every = 0
    world.start_all()
    host = world.hosts[1]
    world.run_until(lambda: 1 in host.node.broker.image.brokers)
    world.run_until(lambda: host.node.broker.image.brokers[1].active)
    count = 2 * MAX_RECORDS_PER_TURN + 1
    # By slice: how many records, and how many partitions were known.
    slices: list[tuple[int, int]] = []
    read = MetadataFeed.read

    def reading(self: MetadataFeed, each: CommittedMetadata, most: int) -> int:
        found = read(self, each, most)
        known = host.node.broker.image.topics_by_name.get("long")
        slices.append((found, 0 if known is None else len(known.partitions)))
        return found

    monkeypatch.setattr(MetadataFeed, "read", reading)
    assert SimClient(world, 1).create_topic("long", count, 1) == ErrorCode.NONE
    assert [found for found, _ in slices if found > 1] == [*[MAX_RECORDS_PER_TURN] * 2, 2]
    world.kill(1)
    slices.clear()
    world.start(1)
    world.run_until(lambda: "long" in host.node.broker.image.topics_by_name)
    assert max(found for found, _ in slices) <= MAX_RECORDS_PER_TURN
    assert sum(found for found, known in slices if not known) > count
    assert {known for _, known in slices} <= {0, count}
