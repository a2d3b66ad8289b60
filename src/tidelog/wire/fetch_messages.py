"""Fetch as version-free values: what a follower, a consumer or a quorum replica asks and gets.

Topics carry both name and id: below version 13 the id is `ZERO_TOPIC_ID`, from version 13 on the
name is `""` until a handler resolves it. Lists of partitions are flat and keep their order, which
carries meaning in fetch sessions (KIP-227).
"""

from typing import Final, NamedTuple

from tidelog.env.effects import Chunk
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.model import EpochEndOffset, TopicId
from tidelog.wire.notation import CLASSIC, FLEXIBLE, Notation
from tidelog.wire.topics import LeaderHint, NodeEndpoints

MIN_VERSION: Final = 4
MAX_VERSION: Final = 18

LOG_START_FROM: Final = 5
SESSIONS_FROM: Final = 7
LEADER_EPOCH_FROM: Final = 9
RACK_FROM: Final = 11
FLEXIBLE_FROM: Final = 12
TOPIC_ID_FROM: Final = 13
REPLICA_STATE_FROM: Final = 15
ENDPOINTS_FROM: Final = 16
DIRECTORY_FROM: Final = 17
HIGH_WATERMARK_FROM: Final = 18

FETCH_ANY_HIGH_WATERMARK: Final = 2**63 - 1
"""The follower does not ask to be woken for a new high watermark (KIP-1166)."""

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1


class FetchPartition(NamedTuple):
    """What a replica or consumer wants of one partition."""

    topic: str
    topic_id: TopicId
    partition: int
    current_leader_epoch: int
    """The epoch the sender believes in; -1 skips the check."""
    fetch_offset: int
    last_fetched_epoch: int
    """Epoch of the record before `fetch_offset` in the sender's log; -1 when absent."""
    log_start_offset: int
    """The follower's own log start offset; -1 from consumers."""
    max_bytes: int
    high_watermark: int = FETCH_ANY_HIGH_WATERMARK
    """The follower's known high watermark (version 18), inclusive of nothing it lacks."""


class ForgottenPartition(NamedTuple):
    """A partition that leaves an incremental fetch session (KIP-227)."""

    topic: str
    topic_id: TopicId
    partition: int


class FetchRequest(NamedTuple):
    """One Fetch request of any version."""

    replica_id: int
    """-1 for consumers."""
    replica_epoch: int
    """Broker epoch of the follower; -1 when not given."""
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    partitions: list[FetchPartition]
    forgotten: list[ForgottenPartition]
    rack_id: str = ""
    cluster_id: str | None = None
    replica_directory_id: bytes = bytes(16)
    """Version 17, quorum replicas only."""


class AbortedTransaction(NamedTuple):
    """An aborted range in the returned records."""

    producer_id: int
    first_offset: int


class FetchedPartition(NamedTuple):
    """The answer for one partition."""

    topic: str
    topic_id: TopicId
    partition: int
    error_code: ErrorCode
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: list[Chunk]
    """Whole record batches; the last one may be cut for consumers."""
    records_bytes: int
    diverging_epoch: EpochEndOffset | None = None
    current_leader: LeaderHint | None = None
    snapshot_id: EpochEndOffset | None = None
    aborted: list[AbortedTransaction] | None = None
    preferred_read_replica: int = -1


class FetchResponse(NamedTuple):
    """One Fetch response of any version. `node_endpoints` maps leader ids in hints (v16+)."""

    throttle_ms: int
    error_code: ErrorCode
    session_id: int
    partitions: list[FetchedPartition]
    node_endpoints: NodeEndpoints = []


def notation_of(version: int) -> Notation:
    """Which notation a Fetch version uses. Raises `ProtocolError(UNSUPPORTED_VERSION)`."""
    if not MIN_VERSION <= version <= MAX_VERSION:
        raise ProtocolError(ErrorCode.UNSUPPORTED_VERSION, f"Fetch version `{version}`")
    return FLEXIBLE if version >= FLEXIBLE_FROM else CLASSIC
