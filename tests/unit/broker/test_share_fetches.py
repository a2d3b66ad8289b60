"""What a fetch of a member makes of what was read."""

from tidelog.broker.share_fetches import ShareFetchCall, aborted_spans
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.model import TopicId
from tidelog.records.batch import build_batch, iter_headers
from tidelog.records.control import EndTxnMarker, build_end_txn_marker
from tidelog.records.record import Record
from tidelog.sharing.share_partition import SharePartition
from tidelog.sharing.values import AcquireRequest, ShareKey, ShareSettings, ShareState, Span
from tidelog.wire.fetch import AbortedTransaction, FetchedPartition

KEY = ShareKey("g", TopicId(b"t" * 16), 0)
RECORD = Record(1000, None, b"v")


def at(offset, batch):
    return offset.to_bytes(8, "big") + batch[8:]


def plain(offset, count=1):
    return at(offset, build_batch([RECORD] * count))


def transactional(offset, producer_id, count=1):
    batch = build_batch(
        [RECORD] * count,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    return at(offset, batch)


def end(offset, producer_id, *, commits):
    return at(offset, build_end_txn_marker(EndTxnMarker(commits, 0), producer_id, 0, 1000))


def test_batches_of_aborted_transactions_are_found():
    data = b"".join(
        [
            transactional(0, 7, 3),
            transactional(3, 8, 2),
            plain(5),
            end(6, 7, commits=False),
            transactional(7, 7),
            end(8, 7, commits=True),
            end(9, 8, commits=False),
        ]
    )
    headers = [header for _, header in iter_headers(data)]
    aborted = [AbortedTransaction(8, 3), AbortedTransaction(7, 0)]
    assert aborted_spans(headers, aborted) == [Span(0, 2), Span(3, 4)]
    assert aborted_spans(headers, []) == []


def call_of(most):
    return ShareFetchCall(
        request=AcquireRequest("a", most, 500, strict=False),
        wanted={KEY: "t"},
        max_bytes=1 << 20,
        min_bytes=1,
        deadline=Instant(0),
        on_done=lambda answers, now: None,
        is_open=lambda: True,
    )


def found(*batches):
    chunks = [memoryview(batch) for batch in batches]
    size = sum(map(len, batches))
    return FetchedPartition("t", KEY.topic_id, 0, ErrorCode.NONE, 9, 9, 0, chunks, size)


def test_batches_around_what_was_acquired_are_cut_off():
    share = SharePartition(KEY, 1, ShareState(1, 2), ShareSettings())
    batches = [plain(0, 2), plain(2, 2), plain(4, 2)]
    call = call_of(2)
    call.take(share, 2, found(*batches), Instant(0))
    answer = call.answers[KEY]
    assert list(answer.acquired) == [(2, 3, 1)]
    assert b"".join(bytes(each) for each in answer.records) == batches[1]
    assert (answer.records_bytes, call.count, call.is_ready) == (len(batches[1]), 2, True)


def test_what_others_have_is_not_sent():
    share = SharePartition(KEY, 1, ShareState(1, 0), ShareSettings())
    call_of(10).take(share, 0, found(plain(0, 4)), Instant(0))
    late = call_of(10)
    late.take(share, 0, found(plain(0, 4)), Instant(0))
    assert (late.answers[KEY].records_bytes, late.is_ready) == (0, False)
