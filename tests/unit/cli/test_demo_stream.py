"""The demo's producer against librdkafka's own mock brokers: real TCP, real protocol."""

import time
from collections.abc import Iterator

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from tidelog.cli import demo_stream
from tidelog.cli.demo_input import InputRecord, Unreadable
from tidelog.cli.demo_stream import Stream
from tidelog.pipeline.acknowledgements import AcknowledgementLog


@pytest.fixture
def mock_brokers() -> Iterator[str]:
    """Three brokers that live as long as the producer that holds them."""
    holder = Producer({"test.mock.num.brokers": 3, "log_level": 0})
    brokers = holder.list_topics(timeout=10).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    del holder


def _records(count: int) -> list[InputRecord]:
    return [InputRecord(i + 2, b"k%d" % (i % 9), b"value %d" % i) for i in range(count)]


def test_every_acknowledged_record_is_in_the_ledger_once(tmp_path, monkeypatch, mock_brokers):
    monkeypatch.setattr(demo_stream, "MIN_STREAM_S", 0.0)
    items = [
        *_records(3000),
        Unreadable(5000, 2, "is empty"),
        InputRecord(5001, None, b"x" * 2**20),
    ]
    path = tmp_path / "ledger.parquet"
    fractions: list[float] = []
    with AcknowledgementLog(path, "flights") as ledger:
        stream = Stream(mock_brokers, "flights", ledger)
        stream.run(items, 3000, fractions.append)
        stream.flush()
        assert (stream.produced, stream.acknowledged, stream.failed) == (3000, 3000, 0)
    assert fractions == sorted(fractions)
    assert (fractions[0], fractions[-1]) == (0.0, 1.0)
    assert stream.unreadable_lines == 3
    assert str(stream.unreadable[0]) == "line 4999-5000: is empty"
    assert "line 5001: cannot be sent: " in str(stream.unreadable[1])
    rows = pq.read_table(path).sort_by("sequence").to_pylist()
    assert [row["sequence"] for row in rows] == list(range(3000))
    assert len({(row["partition"], row["offset"]) for row in rows}) == 3000
    assert rows[17]["key"] == b"k8"


def test_a_failover_ends_with_a_record_that_was_produced_after_the_kill(
    tmp_path, monkeypatch, mock_brokers
):
    """Acknowledgements of earlier records arrive later too, and do not count."""
    monkeypatch.setattr(demo_stream, "MIN_STREAM_S", 0.0)
    with AcknowledgementLog(tmp_path / "ledger.parquet", "flights") as ledger:
        stream = Stream(mock_brokers, "flights", ledger)
        stream.run(_records(500), 500, lambda fraction: None)
        rows_before = stream.acknowledged
        assert rows_before < 500
        stream.watch(0, time.monotonic())
        stream.flush()
        assert stream.acknowledged == 500
        assert stream.failover_ms is None
        stream.watch(0, time.monotonic() - 2.0)
        stream.run(_records(500), 500, lambda fraction: None)
        stream.flush()
        assert stream.failover_ms is not None
        assert 2000 <= stream.failover_ms < 30_000


def test_a_small_input_is_stretched(tmp_path, monkeypatch, mock_brokers):
    monkeypatch.setattr(demo_stream, "MIN_STREAM_S", 0.5)
    seen: list[float] = []
    with AcknowledgementLog(tmp_path / "ledger.parquet", "flights") as ledger:
        stream = Stream(mock_brokers, "flights", ledger)
        begun = time.monotonic()
        stream.run(_records(3), 3, seen.append)
        assert time.monotonic() - begun >= 0.3
        stream.flush()
    assert seen == pytest.approx([0, 1 / 3, 2 / 3, 1])


def test_records_that_cannot_be_delivered_are_counted_with_a_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(demo_stream, "MIN_STREAM_S", 0.0)
    monkeypatch.setattr(demo_stream, "_FLUSH_TIMEOUT_S", 0.2)
    with AcknowledgementLog(tmp_path / "ledger.parquet", "flights") as ledger:
        stream = Stream("127.0.0.1:1", "flights", ledger)
        stream.run(_records(10), 10, lambda fraction: None)
        stream.flush()
    assert (stream.produced, stream.acknowledged, stream.failed) == (10, 0, 10)
    assert stream.errors == ["10 records were not answered in 0.2 s"]
