"""Goal: lines and records about in-sync replicas have the shape that their readers know."""

from tidelog.env.event import EventRecord, Kind, record_of
from tidelog.model import TopicPartition
from tidelog.replication.events.in_sync import (
    HighWatermarkAdvanced,
    HighWatermarkStalled,
    IsrExpansionProposed,
    IsrShrinkProposed,
    IsrUpdated,
    IsrUpdateReason,
    StallReason,
)

KEY = TopicPartition("my-orders", 3)


def test_a_stall_names_only_what_its_reason_has() -> None:
    event = HighWatermarkStalled(
        partition=KEY,
        reason=StallReason.REPLICAS_LACK_RECORDS,
        log_ends={3: 5, 2: 4},
        for_ms=600,
        high_watermark=4,
        required=6,
        acks=1,
    )
    assert event.text() == (
        "my-orders-3 check_isrs: high watermark stands still (replicas lack records) "
        "log_ends={3: 5, 2: 4} for_ms=600 high_watermark=4 required=6 acks=1"
    )
    assert record_of(event).payload == {
        "for_ms": 600,
        "high_watermark": 4,
        "required": 6,
        "acks": 1,
        "reason": "replicas lack records",
        "followers": (3, 2),
        "log_ends": (5, 4),
    }


def test_proposals_name_their_followers_alike() -> None:
    joins = IsrExpansionProposed(
        partition=KEY, replica=2, isr=(1,), log_end=5, high_watermark=4, epoch_start=0
    )
    leaves = IsrShrinkProposed(
        partition=KEY,
        leaving=(2,),
        isr=(1, 2),
        log_ends=(5,),
        level_ms_ago=(1200,),
        high_watermark=5,
        log_end=9,
        lag_time_max_ms=1000,
    )
    assert record_of(joins).payload == {
        "isr": (1,),
        "high_watermark": 4,
        "epoch_start": 0,
        "reason": "caught up to the high watermark",
        "followers": (2,),
        "log_ends": (5,),
    }
    assert record_of(leaves).payload == {
        "leaving": (2,),
        "isr": (1, 2),
        "log_ends": (5,),
        "level_ms_ago": (1200,),
        "high_watermark": 5,
        "log_end": 9,
        "reason": "not level for 1000 ms",
        "followers": (2,),
    }


def test_a_changed_isr_is_shown_with_the_former_one() -> None:
    event = IsrUpdated(
        partition=KEY,
        reason=IsrUpdateReason.AS_PROPOSED,
        was=(1,),
        isr=(1, 2),
        partition_epoch=3,
        high_watermark=4,
    )
    assert event.text() == (
        "my-orders-3 become_leader: isr changed (as proposed) isr=(1,)->(1, 2) partition_epoch=3 "
        "high_watermark=4"
    )


def test_an_advance_names_a_sampled_append_or_none() -> None:
    event = HighWatermarkAdvanced(
        partition=KEY, leader_epoch=7, high_watermark=5, log_end=6, followers=(2,), log_ends=(5,)
    )
    payload = {"high_watermark": 5, "log_end": 6, "followers": (2,), "log_ends": (5,)}
    assert record_of(event) == EventRecord(Kind.HW_ADVANCE, *KEY, 7, payload)
