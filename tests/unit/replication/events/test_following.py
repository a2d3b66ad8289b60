"""Goal: lines and records of followers' events have the shape that their readers know."""

from tidelog.env.event import EventRecord, Kind, record_of
from tidelog.errors import ErrorCode
from tidelog.model import EpochEndOffset, TopicPartition
from tidelog.replication.events.following import (
    DelayReason,
    FetchDelayed,
    FetchesPaused,
    LogRestarted,
    LogTruncated,
    RestartReason,
    TruncationReason,
)
from tidelog.replication.events.shape import NoAnswer

KEY = TopicPartition("my-orders", 3)


def test_a_truncation_names_both_ends() -> None:
    event = LogTruncated(
        partition=KEY,
        reason=TruncationReason.DIVERGED,
        log_end_before=7,
        log_end=5,
        epoch_before=2,
        epoch=1,
        high_watermark=4,
        diverging=EpochEndOffset(1, 5),
    )
    assert event.text() == (
        "my-orders-3 truncate: truncated (diverging epoch) log_end=7->5 epoch=2->1 "
        "high_watermark=4 diverging=(1, 5)"
    )
    assert record_of(event) == EventRecord(
        Kind.TRUNCATE,
        *KEY,
        None,
        {"from": 7, "to": 5, "high_watermark": 4, "reason": "diverging epoch"},
    )


def test_error_codes_are_shown_by_name() -> None:
    paused = FetchesPaused(leader_id=2, reason=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ms=20)
    silent = FetchesPaused(leader_id=2, reason=NoAnswer.NO_ANSWER, ms=20)
    assert paused.text() == (
        "fetcher 2 on_fetch_response: pausing (FETCH_SESSION_ID_NOT_FOUND) ms=20"
    )
    assert silent.text() == "fetcher 2 on_fetch_response: pausing (no answer) ms=20"


def test_a_delay_is_shown_with_the_most_that_is_known() -> None:
    event = FetchDelayed(
        partition=KEY,
        handler="on_list_offsets_response",
        reason=DelayReason.BAD_RECORDS,
        detail="a checksum",
        ms=20,
        leader=2,
        leader_epoch=7,
        fetch_offset=5,
    )
    assert event.text() == (
        "my-orders-3 on_list_offsets_response: delayed (a checksum) ms=20 leader=2 leader_epoch=7 "
        "fetch_offset=5"
    )


def test_a_restart_shows_no_divergence_that_there_was_not() -> None:
    event = LogRestarted(
        partition=KEY,
        reason=RestartReason.BATCH_BEGINS_BELOW,
        leader_start=9,
        log_start=0,
        log_end=5,
        high_watermark=4,
    )
    assert event.text() == (
        "my-orders-3 restart: restarted (the leader's first batch begins below) leader_start=9 "
        "log_start=0 log_end=5 high_watermark=4"
    )
