"""Every bound of the core in one place, each with the behaviour at the bound.

A bound is a promise that memory and work stay finite whatever a peer sends. Rooms import their
bounds from here and nowhere else.
"""

from typing import Final

MAX_REQUEST_BYTES: Final = 100 << 20
"""`socket.request.max.bytes`: a larger frame closes the connection."""

MAX_IN_FLIGHT_REQUESTS: Final = 256
"""Requests of one connection that wait for an answer; at the bound reading is paused."""

MAX_DECOMPRESSED_BATCH_BYTES: Final = 256 << 20
"""A batch that decompresses to more is refused as INVALID_RECORD: a decompression bomb."""

MAX_DECOMPRESSION_RATIO: Final = 4096
"""A batch that inflates by more than this factor and 1 MiB is refused likewise."""

TAIL_CACHE_BYTES: Final = 4 << 20
"""Per log: the newest batches kept in memory for followers; the oldest are dropped first."""

MAX_CACHED_PRODUCER_BATCHES: Final = 5
"""Batches remembered per producer for duplicate detection (clients keep 5 in flight)."""

MAX_FETCH_SESSIONS: Final = 1000
"""`max.incremental.fetch.session.cache.slots`: beyond it a fetch gets session id 0."""
