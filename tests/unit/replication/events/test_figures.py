"""Goal: figures have the records that their readers know."""

from tidelog.env.event import EventRecord, Kind, record_of
from tidelog.model import TopicPartition
from tidelog.replication.events.figures import HighWatermarkAdvanced

KEY = TopicPartition("my-orders", 3)


def test_an_advance_names_a_sampled_append_or_none() -> None:
    event = HighWatermarkAdvanced(
        partition=KEY, leader_epoch=7, high_watermark=5, log_end=6, followers=(2,), log_ends=(5,)
    )
    payload = {"high_watermark": 5, "log_end": 6, "followers": (2,), "log_ends": (5,)}
    assert record_of(event) == EventRecord(Kind.HW_ADVANCE, *KEY, 7, payload)
