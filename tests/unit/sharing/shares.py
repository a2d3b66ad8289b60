"""A share partition over a log of record batches of ten, and members that fetch and speak."""

import pytest

from tidelog.env.instant import Instant
from tidelog.errors import ProtocolError
from tidelog.model import TopicId
from tidelog.sharing.acquiring import acquire
from tidelog.sharing.share_partition import SharePartition
from tidelog.sharing.values import (
    Acknowledgement,
    AcquireRequest,
    ShareKey,
    ShareSettings,
    ShareState,
    Span,
)

KEY = ShareKey("workers", TopicId(bytes(16)), 0)
LOCK_MS = 1000
NOW = Instant(5000)
SPANS = [Span(first, first + 9) for first in range(0, 200, 10)]
"""A log of record batches of ten."""


def share_of(start=0, batches=(), **settings) -> SharePartition:
    settings = ShareSettings(lock_ms=LOCK_MS, **settings)
    return SharePartition(KEY, 1, ShareState(1, start, batches), settings)


def fetch(share, member="a", most=500, *, size=500, strict=False, upto=200, now=NOW, aborted=()):
    """As a leader does: reads from the next offset on, and acquires of what there is."""
    offset = share.next_offset()
    spans = [span for span in SPANS if span.last >= offset and span.first < upto]
    got = acquire(share, AcquireRequest(member, most, size, strict), offset, spans, now, aborted)
    share.check()
    return got


def say(share, kind, first, last, member="a", *, written=True, now=NOW):
    """Acknowledges; returns what is to be written."""
    kinds = (kind,) if isinstance(kind, int) else kind
    change = share.acknowledge(member, [Acknowledgement(first, last, kinds)], now)
    share.check()
    share.finish(change, now, written=written)
    share.check()
    return change.batches


def refusal(share, kind, first, last, member="a"):
    with pytest.raises(ProtocolError) as caught:
        say(share, kind, first, last, member)
    share.check()
    return caught.value.code


def deliver(share, times, *, upto=200):
    """Delivers and releases; returns what came each time."""
    rounds = []
    for _ in range(times):
        got = fetch(share, most=20, upto=upto)
        rounds.append(got)
        share.finish(share.release("a"), NOW, written=True)
    return rounds
