"""Fetch (API 1): version-free values, and a hand-packed codec for versions 4 to 18.

The same values (`fetch_messages.py`) serve consumers, followers and the metadata quorum.

This is the hot path, so messages are read and written with precompiled `struct`s, no entities
between, and record bytes are never copied: a parsed response holds views of its frame, a packed
one holds the very chunks it was given.

What the versions brought, as far as the bytes differ: 5 log start offset, 7 sessions (KIP-227),
9 the leader epoch (KIP-320), 11 racks (KIP-392), 12 tagged fields and the epoch of the last
fetched record (KIP-595), 13 topic ids (KIP-516), 15 the replica's epoch (KIP-903), 16 endpoints
of hinted leaders (KIP-951), 17 the directory of a quorum replica (KIP-853), 18 the follower's
high watermark (KIP-1166).
"""

from tidelog.wire.fetch_messages import (
    FETCH_ANY_HIGH_WATERMARK,
    MAX_VERSION,
    MIN_VERSION,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    AbortedTransaction,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ForgottenPartition,
)
from tidelog.wire.fetch_request import pack_request, parse_request
from tidelog.wire.fetch_response import pack_response, parse_response
from tidelog.wire.topics import LeaderHint, NodeEndpoints

__all__ = [
    "FETCH_ANY_HIGH_WATERMARK",
    "MAX_VERSION",
    "MIN_VERSION",
    "READ_COMMITTED",
    "READ_UNCOMMITTED",
    "AbortedTransaction",
    "FetchPartition",
    "FetchRequest",
    "FetchResponse",
    "FetchedPartition",
    "ForgottenPartition",
    "LeaderHint",
    "NodeEndpoints",
    "pack_request",
    "pack_response",
    "parse_request",
    "parse_response",
]
