"""The simulator's quorum, for scripts and tests that look at single steps.

`Cluster` is the simulator's `QuorumCluster` with its oracle and checks. Its network and its disks
take a fixed time unless a test asks for a range. It can show messages, and it keeps the answers to
operators.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields

from tidelog.config import QuorumConfig
from tidelog.env.prng import Prng
from tidelog.env.trace import Level
from tidelog.errors import ErrorCode
from tidelog.kraft.messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    ReplicaKey,
    Reply,
    Request,
    Response,
    SendRequest,
    VoterChangeResponse,
)
from tidelog.model import Uuid
from tidelog.sim.engine.formation import CLUSTER_ID
from tidelog.sim.quorum import options
from tidelog.sim.quorum.cluster import Disks, QuorumCluster
from tidelog.sim.quorum.exchange import Exchange, ReplyTo
from tidelog.sim.quorum.membership import node_at
from tidelog.sim.quorum.options import Composition
from tidelog.sim.quorum.replica import Replica


@dataclass(slots=True)
class Conditions:
    """How the network and the disks behave; may be changed while the cluster runs."""

    latency_ms: tuple[int, int] = (1, 1)
    """One way, both ends included."""
    flush_ms: tuple[int, int] = (1, 1)
    """How long each write of the disk queue takes."""
    loss_percent: int = 0
    """Of requests and answers; a lost one is noticed by timeout only."""


class Cluster(QuorumCluster):
    """Voters 1..n and observers. With `dynamic` the voters are in the log (KIP-853)."""

    def __init__(
        self,
        seed: int,
        *,
        voter_count: int = 3,
        observer_count: int = 0,
        config: QuorumConfig | None = None,
        steps: Conditions | None = None,
        trace_level: Level = Level.ERROR,
        dynamic: bool = False,
    ) -> None:
        self.prng = Prng(seed)
        super().__init__(
            self.prng,
            composition=Composition(
                voter_count, observer_count, dynamic=dynamic, upgradable=not dynamic
            ),
            config=config if config is not None else QuorumConfig(),
            conditions=options.Conditions(),
            trace_level=trace_level,
        )
        self.steps = steps if steps is not None else Conditions()
        self.note_messages = False
        # The answers to operators: what was asked, then the answer.
        self.answers: list[tuple[str, VoterChangeResponse]] = []
        self.exchange = _Exchange(self)
        self.disks = _Disks(self)
        self._ties = _Ties(self.prng)

    def act(self, replica: Replica, action: Callable[[], None]) -> None:
        """One input of a replica, and the end of its tick."""
        self._act(replica, action)

    # Processes ---------------------------------------------------------------------------------

    def start_node(self, *node_ids: int) -> None:
        """Starts the given replicas, or all."""
        for node_id in node_ids or tuple(self.replicas):
            self.start(self.replicas[node_id])

    def kill_node(self, node_id: int) -> None:
        """Kills a process: its peers see their connections close."""
        self.kill(self.replicas[node_id])

    def cut_power_of(self, node_id: int, *, torn: bool = False) -> None:
        """As `kill_node`, and what was not flushed is lost."""
        replica = self.replicas[node_id]
        self._die(replica, replica.log.recovery_point)
        replica.disk.crash(self.prng if torn else None)

    def wipe_node(self, node_id: int) -> None:
        """A dead process gets an empty disk, with another directory id."""
        self.wipe(self.replicas[node_id])

    def append_values(self, replica: Replica, *values: bytes) -> int | None:
        """Appends at this replica; `None` when it does not lead."""
        return self.append(replica, list(values))

    # Links -------------------------------------------------------------------------------------

    def cut_link(self, one: int, other: int) -> None:
        """The link loses everything, both ways."""
        self.cut(one, other)
        self.cut(other, one)

    def isolate(self, node_id: int) -> None:
        """Cuts all links of a replica."""
        for other in self.replicas:
            if other != node_id:
                self.cut_link(node_id, other)

    # Operators ---------------------------------------------------------------------------------

    def add_voter(self, asked: int, node_id: int) -> None:
        """Asks one replica to make another one a voter."""
        self.ask(asked, f"add {node_id}", AddVoterRequest(CLUSTER_ID, self.as_voters[node_id]))

    def remove_voter(self, asked: int, node_id: int, directory_id: Uuid | None = None) -> None:
        """Asks one replica to take another one out of the voters."""
        key = ReplicaKey(node_id, directory_id or self.replicas[node_id].key.directory_id)
        self.ask(asked, f"remove {node_id}", RemoveVoterRequest(CLUSTER_ID, key))

    def ask(self, asked: int, what: str, request: Request) -> None:
        """Sends a request that `what` names in `answers`."""
        replica = self.replicas[asked]
        self.act(replica, lambda: replica.quorum.on_request(request, what, self.now))

    def upgrade_to(self, replica: Replica, level: int, *, validate_only: bool = False) -> ErrorCode:
        """Asks a replica to make this the `kraft.version`."""
        codes: list[ErrorCode] = []
        self.act(
            replica,
            lambda: codes.append(
                replica.quorum.upgrade_version(level, self.now, validate_only=validate_only)[0]
            ),
        )
        return codes[0]

    def _send_reply(self, sender: Replica, reply: Reply) -> None:
        to, response = reply.reply_to, reply.response
        if isinstance(to, str):
            assert isinstance(response, VoterChangeResponse)
            self.answers.append((to, response))
            self.note(f"n{sender.node_id} answers: {to}: {describe(response)}")
        else:
            super()._send_reply(sender, reply)


class _Exchange(Exchange):
    """Links that take the time of the cluster's conditions, and can be looked at."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster, cluster.prng, cluster.conditions, cluster.replicas, cluster._act)
        self._cluster = cluster

    def send_request(self, sender: Replica, output: SendRequest) -> None:
        if self._cluster.note_messages:
            peer_id = output.peer_id
            target = peer_id if peer_id >= 0 else node_at(output.endpoint)
            self._cluster.note(f"n{sender.node_id} -> n{target} {describe(output.request)}")
        super().send_request(sender, output)

    def send_reply(self, sender: Replica, reply: Reply) -> None:
        to = reply.reply_to
        if self._cluster.note_messages and isinstance(to, ReplyTo):
            text = describe(reply.response)
            self._cluster.note(f"n{to.requester} <- n{sender.node_id} {text}")
        super().send_reply(sender, reply)

    def _carry(self, source: int, target: Replica, deliver: Callable[[], None]) -> None:
        link, loss = (source, target.node_id), self._cluster.steps.loss_percent
        if link in self._cuts or (loss and self._prng.chance(loss, 100)):
            return

        def arrive() -> None:
            if link not in self._cuts:
                deliver()

        delay_ms = self._prng.between(*self._cluster.steps.latency_ms)
        self._timeline.at(delay_ms, target.in_this_life(arrive))


class _Disks(Disks):
    """Disks that begin a write when the replica has handled the end of the one before."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster, cluster.prng, cluster.conditions, cluster._act)
        self._cluster = cluster
        # The processes whose disk is at work, by node and life.
        self._busy: set[tuple[int, int]] = set()

    def take(self, replica: Replica) -> None:
        replica.disk_queue.extend(replica.effects.take())
        self._begin(replica)

    def _begin(self, replica: Replica) -> None:
        life = (replica.node_id, replica.life)
        if life in self._busy or not replica.disk_queue or replica.stalled:
            return
        self._busy.add(life)
        delay_ms = self._prng.between(*self._cluster.steps.flush_ms)
        self._timeline.at(delay_ms, replica.in_this_life(lambda: self._complete(replica)))

    def _complete(self, replica: Replica) -> None:
        self._busy.discard((replica.node_id, replica.life))
        if not replica.stalled:
            effect = replica.disk_queue.popleft()
            self._act(replica, lambda: self._carry_out(replica, effect))


class _Ties(Prng):
    """Draws ties from few values, so that events of an instant often keep their order."""

    def __init__(self, prng: Prng) -> None:
        self._prng = prng

    def next_u64(self) -> int:
        return self._prng.below(1 << 16)


def describe(message: Request | Response) -> str:
    """A message in one line, without what a reader of a script does not need."""
    hidden = ("cluster_id", "voter_id", "records", "max_bytes", "max_wait_ms", "log_start_offset")
    parts = [type(message).__name__]
    for name in [each.name for each in fields(message)]:
        value = getattr(message, name)
        if name in hidden or "directory" in name or "endpoint" in name or value in (None, ()):
            continue
        if name == "preferred_candidates":
            value = [candidate.node_id for candidate in value]
        parts.append(f"{name}={getattr(value, 'name', value)}".replace(", ", ","))
    return " ".join(parts)
