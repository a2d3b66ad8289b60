"""One replica alone, driven by hand: for tests of a single decision."""

from dataclasses import replace

from tidelog.config import LogConfig, QuorumConfig
from tidelog.env.effects import EffectQueue, Flush, Replace
from tidelog.env.instant import Instant
from tidelog.env.memory_disk import MemoryDisk
from tidelog.env.prng import Prng
from tidelog.env.trace import Level, Trace, TraceList
from tidelog.errors import ErrorCode
from tidelog.kraft.core import QuorumCore
from tidelog.kraft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    Output,
    QuorumFetchRequest,
    QuorumFetchResponse,
    ReplicaKey,
    Reply,
    Request,
    Response,
    SendRequest,
    Voter,
    VoteRequest,
    VoteResponse,
    VoterIdentity,
)
from tidelog.kraft.quorum import Quorum, QuorumEnv
from tidelog.kraft.quorum_state import QUORUM_STATE_PATH, ElectionState, RoleName, encode_state
from tidelog.log.loading import open_log
from tidelog.log.values import Checkpoints, LogEnv, LogFlush
from tidelog.model import METADATA_PARTITION, METADATA_TOPIC_ID, ZERO_UUID, Endpoint, Uuid
from tidelog.records.batch import build_batch
from tidelog.records.record import Record

CLUSTER_ID = "tidelog-test"
WALL_ZERO_MS = 1_700_000_000_000
LOG_CONFIG = LogConfig(segment_bytes=1 << 16, max_message_bytes=1 << 20)

OWN_ID = 1
DIRECTORY = Uuid(OWN_ID.to_bytes(16, "big"))


def voters_of(count: int) -> dict[int, Voter]:
    """Static voters 1..count."""
    return {
        node_id: Voter(node_id, ZERO_UUID, (Endpoint("CONTROLLER", f"n{node_id}", 9093),))
        for node_id in range(1, count + 1)
    }


class Solo:
    """Replica 1 with a memory disk; nothing is durable before `flush`."""

    def __init__(
        self,
        *,
        voter_count: int = 3,
        state: ElectionState | None = None,
        log_epochs: tuple[int, ...] = (),
        config: QuorumConfig | None = None,
        own_id: int = OWN_ID,
        seed: int = 1,
        endpoints: tuple[Endpoint, ...] = (),
        bootstrap: tuple[Endpoint, ...] = (),
    ) -> None:
        self.disk = MemoryDisk()
        self.disk.make_dir(str(METADATA_PARTITION))
        voters = voters_of(voter_count)
        if state is not None:
            self.disk.replace(QUORUM_STATE_PATH, encode_state(state, tuple(voters)))
        self.started = False
        self.effects = EffectQueue()
        self.sink = TraceList()
        trace = Trace(self.sink, Level.DEBUG)
        self.log = open_log(
            LogEnv(self.disk, self.effects, trace),
            METADATA_PARTITION,
            LOG_CONFIG,
            Checkpoints(),
            clean=True,
            wall_ms=WALL_ZERO_MS,
        )
        self.log.assign_topic_id(METADATA_TOPIC_ID)
        for epoch in log_epochs:
            self.log.append_as_follower(self.next_batch(epoch), epoch)
        self._arguments: dict[str, object] = {
            "identity": VoterIdentity(
                own_id, Uuid(own_id.to_bytes(16, "big")), CLUSTER_ID, endpoints
            ),
            "bootstrap": bootstrap,
            "voters": voters,
            "config": config if config is not None else QuorumConfig(),
            "env": QuorumEnv(self.disk, self.effects, Prng(seed), trace),
        }
        self.make_quorum()
        if log_epochs:
            self.log.request_flush()
            self.flush()

    def make_quorum(self) -> None:
        """A quorum over what is on the disk now; before `start`."""
        self.quorum = Quorum(log=self.log, **self._arguments)  # type: ignore[arg-type]

    @property
    def core(self) -> QuorumCore:
        """What the parts share; for states that are hard to reach through the facade."""
        return self.quorum

    def next_batch(self, epoch: int) -> bytes:
        """One record that fits at the log's end."""
        record = Record(WALL_ZERO_MS, None, b"x")
        return build_batch([record], base_offset=self.log.log_end_offset, leader_epoch=epoch)

    def start(self, now: int = 0) -> None:
        """Starts the quorum and makes everything durable."""
        self.started = True
        self.quorum.start(Instant(now))
        self.quorum.wake(Instant(now))
        self.flush(now)

    def wake(self, now: int) -> list[Output]:
        """A tick ends; returns the outputs."""
        self.quorum.wake(Instant(now))
        self.quorum.check()
        return self.quorum.take_outputs()

    def flush(self, now: int = 0) -> None:
        """Everything written so far becomes durable."""
        for effect in self.effects.take():
            match effect:
                case Flush(file, subject):
                    self.disk.sync(file)
                    if isinstance(subject, LogFlush):
                        self.log.on_flushed(subject)
                    self.quorum.on_flushed(subject, Instant(now))
                case Replace(path, data, subject):
                    self.disk.replace(path, data)
                    if subject is not None:
                        self.quorum.on_flushed(subject, Instant(now))
                case _:
                    raise AssertionError(f"unexpected {effect}")
        if self.started:
            self.quorum.check()

    def settle(self, now: int = 0) -> list[Output]:
        """Wakes and flushes until nothing is left to flush; returns all outputs."""
        outputs = self.wake(now)
        while len(self.effects):
            self.flush(now)
            outputs += self.wake(now)
        return outputs

    def ask(self, request: Request, now: int = 0) -> Response | None:
        """A request from outside and its answer, flushing what the answer waits for."""
        self.quorum.on_request(request, "asked", Instant(now))
        for output in self.settle(now):
            if isinstance(output, Reply) and output.reply_to == "asked":
                return output.response
        return None

    def lead(self, now: int = 0) -> int:
        """Becomes leader with the votes of all others; returns the epoch."""
        self.start(now)
        deadline = self.core.role.deadline() or Instant(now)
        outputs = self.settle(deadline)
        while not self.quorum.is_leader:
            assert outputs, f"{self.quorum.role.name} waits for no answer"
            for output in outputs:
                if isinstance(output, SendRequest) and isinstance(output.request, VoteRequest):
                    granted = VoteResponse(ErrorCode.NONE, -1, output.request.epoch, True)
                    self.quorum.on_response(output.peer_id, output.request, granted, deadline)
            outputs = self.settle(deadline)
        now = deadline
        self.settle(now)
        return self.quorum.epoch

    def follow(self, epoch: int, now: int = 0) -> None:
        """Follows voter 2."""
        self.quorum.on_request(begin(leader_epoch=epoch), "begun", Instant(now))

    def answer(self, response: Response, now: int = 0) -> Request:
        """Voter 2 answers the one request that waits for its answer; returns that request."""
        for output in self.settle(now):
            if isinstance(output, SendRequest) and output.peer_id == 2:
                self.quorum.on_response(2, output.request, response, Instant(now))
                return output.request
        raise AssertionError(f"nothing was asked at {now}")

    def sent(self, now: int) -> list[SendRequest]:
        """The requests that go out at this instant."""
        return [output for output in self.settle(now) if isinstance(output, SendRequest)]

    def trace_lines(self) -> list[str]:
        """What the quorum traced since the last call."""
        return [line for line in self.sink.take_lines() if line.startswith("quorum ")]


def pre_vote(**changes: object) -> VoteRequest:
    """A pre-vote of voter 2 with an empty log in epoch 0."""
    request = VoteRequest(
        cluster_id=CLUSTER_ID,
        voter_id=OWN_ID,
        voter_directory_id=ZERO_UUID,
        candidate_id=2,
        candidate_directory_id=Uuid((2).to_bytes(16, "big")),
        epoch=0,
        last_epoch=0,
        last_offset=0,
        pre_vote=True,
    )
    return replace(request, **changes)  # type: ignore[arg-type]


def vote(**changes: object) -> VoteRequest:
    """A real vote for voter 2, by default in epoch 1."""
    return pre_vote(**{"epoch": 1, "pre_vote": False, **changes})


def fetch(**changes: object) -> QuorumFetchRequest:
    """A fetch of voter 2 at offset 0 in epoch 1 that knows no high watermark."""
    request = QuorumFetchRequest(
        cluster_id=CLUSTER_ID,
        replica_id=2,
        replica_directory_id=Uuid((2).to_bytes(16, "big")),
        epoch=1,
        fetch_offset=0,
        last_fetched_epoch=0,
        high_watermark=-1,
        max_wait_ms=500,
        max_bytes=1 << 20,
    )
    return replace(request, **changes)  # type: ignore[arg-type]


def begin(**changes: object) -> BeginQuorumEpochRequest:
    """Voter 2 leads epoch 1."""
    request = BeginQuorumEpochRequest(CLUSTER_ID, OWN_ID, ZERO_UUID, 2, 1, ())
    return replace(request, **changes)  # type: ignore[arg-type]


def end(**changes: object) -> EndQuorumEpochRequest:
    """Voter 2 resigns from epoch 1; replica 1 is its best successor."""
    successors = (ReplicaKey(1), ReplicaKey(3))
    request = EndQuorumEpochRequest(CLUSTER_ID, 2, 1, successors, ())
    return replace(request, **changes)  # type: ignore[arg-type]


def fetched(**changes: object) -> QuorumFetchResponse:
    """An empty answer of voter 2, who leads epoch 1."""
    response = QuorumFetchResponse(ErrorCode.NONE, 2, 1)
    return replace(response, **changes)  # type: ignore[arg-type]


def follower(**options: object) -> Solo:
    """Replica 1 follows voter 2 in epoch 1 and has fetched from it."""
    solo = Solo(state=ElectionState(1, 2), log_epochs=(1,), **options)  # type: ignore[arg-type]
    solo.start()
    (sent,) = solo.sent(0)
    answer_fetch(solo, sent.request, 0)
    return solo


def answer_fetch(solo: Solo, request: Request, now: int, **changes: object) -> None:
    """The leader answers a fetch."""
    solo.quorum.on_response(2, request, fetched(**changes), Instant(now))
    solo.settle(now)


def role(solo: Solo) -> RoleName:
    """The replica's role."""
    return solo.quorum.role.name
