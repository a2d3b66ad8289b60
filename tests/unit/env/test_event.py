"""Goal: an event is one typed value, and its line and its record are projections of it."""

from enum import StrEnum

from tidelog.env.event import (
    BrokerEvent,
    EventRecord,
    Kind,
    Level,
    PartitionEvent,
    event,
    record_of,
)
from tidelog.env.trace import Trace, TraceList
from tidelog.model import TopicPartition


class Cause(StrEnum):
    DIVERGED = "diverged from the leader"


@event("truncate", "truncated", Kind.TRUNCATE)
class Cut(PartitionEvent):
    leader_epoch: int
    reason: Cause
    high_watermark: int


@event("report_lag", "fetch_lag", level=Level.MEASURE)
class Lag(PartitionEvent):
    """A figure."""


@event("fence", "fenced", Kind.FENCED)
class Left(BrokerEvent):
    """A broker left."""


PARTITION = TopicPartition("my-orders", 3)
CUT = Cut(partition=PARTITION, leader_epoch=7, reason=Cause.DIVERGED, high_watermark=4)


def test_the_line_names_subject_handler_decision_reason_and_fields():
    expected = (
        "my-orders-3 truncate: truncated (diverged from the leader) leader_epoch=7 high_watermark=4"
    )
    assert CUT.text() == expected


def test_the_record_keeps_place_and_epoch_apart_from_the_payload():
    payload = {"high_watermark": 4, "reason": "diverged from the leader"}
    assert record_of(CUT) == EventRecord(Kind.TRUNCATE, "my-orders", 3, 7, payload)


def test_the_record_of_a_broker_names_it_in_the_payload():
    expected = EventRecord(Kind.FENCED, None, None, None, {"node": 2})
    assert record_of(Left(node_id=2)) == expected


def test_an_event_without_a_kind_has_no_record():
    assert record_of(Lag(partition=PARTITION)) is None


def test_a_trace_drops_what_is_below_its_level():
    sink = TraceList()
    Trace(sink, Level.WARN).event(CUT)
    Trace(sink, Level.INFO).event(CUT)
    assert sink.events == [CUT]


def test_a_figure_goes_to_a_sink_that_wants_figures_whatever_the_level():
    sink, lag = TraceList(), Lag(partition=PARTITION)
    Trace(sink, Level.DEBUG).event(lag)
    Trace(sink, Level.ERROR, measures=True).event(lag)
    assert sink.events == [lag]
