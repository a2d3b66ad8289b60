"""The metadata quorum on one node: signatures first, behaviour follows."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from tidelog.config import QuorumConfig
from tidelog.env.disk import Disk
from tidelog.env.effects import EffectQueue
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace
from tidelog.kraft.messages import (
    CommittedBatch,
    Output,
    QuorumDescription,
    Request,
    Response,
    Voter,
    VoterIdentity,
)


@dataclass(frozen=True, slots=True)
class QuorumEnv:
    """The ports of the quorum."""

    disk: Disk
    effects: EffectQueue
    prng: Prng
    trace: Trace


class Quorum:
    """One voter (or observer) of the metadata quorum."""

    def __init__(
        self,
        *,
        identity: VoterIdentity,
        voters: Mapping[int, Voter],
        log: object,
        config: QuorumConfig,
        env: QuorumEnv,
    ) -> None:
        self.epoch: int = 0
        self.leader_id: int = -1
        self.is_leader: bool = False
        self.high_watermark: int = 0
        self.log_end_offset: int = 0
        self.epoch_start_offset: int = -1

    def start(self, now: Instant) -> None:
        """Begins; reads the durable state."""
        raise NotImplementedError

    def on_request(self, request: Request, reply_to: Hashable, now: Instant) -> None:
        """Answered by a `Reply`, at once or later."""
        raise NotImplementedError

    def on_response(
        self, peer_id: int, request: Request, response: Response | None, now: Instant
    ) -> None:
        """The answer to a `SendRequest`; `None` when it failed or the peer is gone."""
        raise NotImplementedError

    def on_peer_suspected(self, peer_id: int, now: Instant) -> None:
        """The peer's sockets closed and reconnecting was refused for the grace period."""
        raise NotImplementedError

    def on_flushed(self, subject: Hashable, now: Instant) -> None:
        """A `LogFlush` of the metadata log (given to the log first) or a `QuorumStateFlush`."""
        raise NotImplementedError

    def wake(self, now: Instant) -> None:
        """Due timers and the end of the tick."""
        raise NotImplementedError

    def deadline(self) -> Instant | None:
        """When it wants to be woken."""
        raise NotImplementedError

    def append(self, records: Sequence[bytes], now: Instant, wall_ms: int) -> int:
        """Leader only (`NotLeader` otherwise): one batch; returns its last offset."""
        raise NotImplementedError

    def resign(self, now: Instant) -> None:
        """Graceful: EndQuorumEpoch."""
        raise NotImplementedError

    def take_outputs(self) -> list[Output]:
        """In order."""
        raise NotImplementedError

    def take_committed(self) -> list[CommittedBatch]:
        """In order, each batch once, from the log's start after every start."""
        raise NotImplementedError

    def describe(self, now: Instant) -> QuorumDescription:
        """For DescribeQuorum."""
        raise NotImplementedError

    def check(self) -> None:
        """Asserts the invariants."""
        raise NotImplementedError
