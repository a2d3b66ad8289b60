"""Goal: a leader times one commit at a time, always measures the end of an election and of a stall,
and names followers that lag. Method: a real leader and its followers; the samples by hand."""

from typing import Any

import pytest

from tidelog.env.instant import Instant
from tidelog.env.trace import Trace, TraceList
from tidelog.model import TopicPartition
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.replication.events.in_sync import FetchLagMeasured
from tidelog.replication.leader import LeaderState
from tidelog.replication.measures import (
    LAG_REPORTED_FROM_MS,
    SAMPLE_INTERVAL_MS,
    SAMPLES_PER_SECOND,
    Measures,
)
from tidelog.replication.partition import Partition
from tidelog.sim.replicas.cluster import Cluster

KEY = TopicPartition("orders", 0)
BATCH = build_batch([Record(0, None, b"v")])


class Bench:
    """A leader of a running cluster, and measures of its own that a test drives."""

    def __init__(self) -> None:
        self.cluster = Cluster((1, 2))
        self.cluster.feed.create_topic("orders", (1, 2))
        self.cluster.run(10)
        self.partition: Partition = self.cluster.brokers[1].replicas.partitions[KEY]
        assert self.partition.leadership is not None
        self.leadership: LeaderState = self.partition.leadership
        self.sink = TraceList()
        self.measures = Measures(Trace(self.sink, measures=True))
        self.now = Instant(self.cluster.now)

    def append(self) -> None:
        """One record, nowhere but on the leader."""
        self.partition.log.append_as_leader(BATCH, self.leadership.leader_epoch, 1)
        self.measures.on_append(self.partition, self.now)

    def commit(self, offset: int) -> None:
        """The high watermark moves."""
        self.partition.log.update_high_watermark(offset)
        self.measures.on_advance(self.partition, self.leadership, self.now)

    def take(self) -> list[tuple[str, Any]]:
        """What was measured: the kind and the offset that is committed."""
        found = [(one.decision, dict(one.shown()).get("required")) for one in self.sink.events]
        self.sink.events.clear()
        return found


@pytest.fixture
def bench() -> Bench:
    """Nothing is measured yet."""
    return Bench()


def test_one_append_is_timed_until_it_is_committed(bench: Bench) -> None:
    bench.append()
    bench.append()
    assert bench.take() == [("append", 1)]
    bench.commit(1)
    assert bench.take() == [("hw_advance", 1)]
    bench.commit(2)
    assert bench.take() == []


def test_the_next_sample_waits_for_the_interval(bench: Bench) -> None:
    bench.append()
    bench.commit(1)
    bench.take()
    bench.now = Instant(bench.now + SAMPLE_INTERVAL_MS - 1)
    bench.append()
    assert bench.take() == []
    bench.now = Instant(bench.now + 1)
    bench.append()
    assert bench.take() == [("append", 3)]


def test_the_first_advance_of_a_term_is_measured_though_nothing_was_sampled(bench: Bench) -> None:
    bench.partition.log.append_as_leader(BATCH, bench.leadership.leader_epoch, 1)
    bench.partition.log.append_as_leader(BATCH, bench.leadership.leader_epoch, 1)
    bench.commit(1)
    assert bench.take() == [("hw_advance", None)]
    bench.commit(2)
    assert bench.take() == []


def test_the_end_of_a_reported_stall_is_measured(bench: Bench) -> None:
    """The leader itself asks for it when the high watermark moves again."""
    bench.append()
    bench.commit(1)
    bench.take()
    bench.cluster.produce(1, [b"v"])
    bench.leadership.stall_reported = True
    assert not bench.leadership.sample.wanted
    bench.cluster.run(50)
    assert bench.leadership.sample.wanted


def test_many_leaders_share_the_rate(bench: Bench) -> None:
    bench.measures.set_leader_count(10 * SAMPLES_PER_SECOND)
    bench.append()
    bench.commit(1)
    bench.take()
    bench.now = Instant(bench.now + 10_000 - 1)
    bench.append()
    assert bench.take() == []
    bench.now = Instant(bench.now + 1)
    bench.append()
    assert bench.take() == [("append", 3)]


def test_a_follower_that_lags_for_long_is_named(bench: Bench) -> None:
    bench.measures.report_lag(bench.partition, bench.leadership, bench.now)
    assert bench.take() == []
    later = Instant(bench.leadership.remotes[2].last_caught_up + LAG_REPORTED_FROM_MS)
    bench.measures.report_lag(bench.partition, bench.leadership, later)
    (event,) = bench.sink.events
    assert isinstance(event, FetchLagMeasured)
    assert (event.followers, event.level_ms_ago) == ((2,), (LAG_REPORTED_FROM_MS,))
