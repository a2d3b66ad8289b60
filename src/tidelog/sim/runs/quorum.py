"""One seed of the quorum tier: a quorum under faults, then healed, watched by the oracle.

The seed draws the weather (voters, observers, network, disks, loss), then faults and appends happen
for a while. Then everything heals, and within `RECOVERY_LIMIT_MS` there must be one leader whom
all follow, and a new record must be committed everywhere (`Liveness`).
"""

from collections import Counter
from dataclasses import dataclass, fields, replace
from typing import Final

from tidelog.env.prng import Prng
from tidelog.env.trace import Level
from tidelog.kraft.messages import AddVoterRequest
from tidelog.sim.engine.formation import CLUSTER_ID
from tidelog.sim.quorum.cluster import QuorumCluster
from tidelog.sim.quorum.membership import draw_change, voters_without_disk
from tidelog.sim.quorum.options import QUICK, Composition, Conditions
from tidelog.sim.quorum.replica import Replica
from tidelog.sim.report.outcome import Outcome
from tidelog.sim.report.violation import Violation
from tidelog.sim.scenarios.swarm import stream

RECOVERY_LIMIT_MS: Final = 20_000
QUIET_LIMIT_MS: Final = 2_000
"""As long an operator waits for a moment in which a disk may be replaced."""
KINDS: Final = (
    "kill",
    "kill-in-write",
    "power-cut",
    "power-cut-all",
    "isolate",
    "cut-one-way",
    "suspicion",
    "resign",
)
SLOWNESS: Final = (0, 0, 1, 5, 100)
"""The last is for safety alone: an election takes as long as its time limit then, so no quorum has
to find a leader. All is faster once everything has healed (`QuorumCluster.become_calm`)."""
DAMAGE: Final = "damage-snapshot"
"""Only where snapshots are made, and only on a minority of the voters (P4)."""


@dataclass(frozen=True, slots=True)
class QuorumSwarm:
    """The options of one run."""

    voters: int
    observers: int
    latency_ms: int
    flush_ms: int
    loss_percent: int
    hold_percent: int
    disconnect_grace_ms: int
    gap_ms: int
    """Longest time between two steps."""
    steps: int
    faults: tuple[str, ...]
    snapshot_every: int = 0
    """Records between two snapshots; 0 for none."""
    segment_bytes: int = 1 << 14
    retention_bytes: int = 100 << 20
    """Of log and snapshots: what is beyond it must be caught up with by snapshot."""
    piece_bytes: int = 1 << 20
    """How much of a snapshot is fetched at a time."""
    dynamic: bool = False
    """The voters stand in the log and change (`sim/quorum/membership.py`)."""
    upgrade: bool = False
    """They stand in the configuration at first, and are moved to the log."""
    auto_join: bool = False
    """A replica that is not a voter asks to become one."""
    wipes: bool = False
    """Voters lose their disks, one after the other."""
    slowness: int = 0
    """What work costs, in times of the usual (`engine/work.py`); 0 for nothing."""

    def describe(self) -> str:
        """One line, printed before a run."""
        parts = []
        for item in fields(self):
            value = getattr(self, item.name)
            parts.append(f"{item.name}={','.join(value) if isinstance(value, tuple) else value}")
        return " ".join(parts)


def draw_quorum(seed: int) -> QuorumSwarm:
    """The options of a seed."""
    prng = stream(seed, "quorum swarm")
    faults = tuple(kind for kind in KINDS if prng.chance(1, 2)) or (prng.choice(KINDS),)
    saving = stream(seed, "quorum snapshots")
    snapshot_every = saving.choice((0, 3, 8, 20))
    voting = stream(seed, "quorum voters")
    dynamic = voting.chance(1, 3)
    if snapshot_every and saving.chance(1, 2) and not dynamic:
        faults = (*faults, DAMAGE)
    return QuorumSwarm(
        voters=prng.choice((1, 3, 3, 3, 5)),
        observers=prng.below(2) + (voting.between(1, 2) if dynamic else 0),
        latency_ms=prng.choice((2, 5, 20, 120)),
        flush_ms=prng.choice((1, 10, 60)),
        loss_percent=prng.choice((0, 0, 5, 20)),
        hold_percent=prng.choice((0, 50, 100)),
        disconnect_grace_ms=prng.choice((0, 500)),
        gap_ms=prng.choice((60, 300)),
        steps=prng.between(20, 60),
        faults=faults,
        snapshot_every=snapshot_every,
        segment_bytes=saving.choice((256, 1024, 1 << 14)),
        retention_bytes=saving.choice((0, 0, 2_000, 100 << 20)),
        piece_bytes=saving.choice((16, 100, 1 << 20)),
        dynamic=dynamic,
        auto_join=dynamic and voting.chance(1, 4),
        upgrade=dynamic and voting.chance(1, 3),
        wipes=dynamic and voting.chance(1, 2),
        slowness=stream(seed, "quorum hardware").choice(SLOWNESS),
    )


class QuorumRun:
    """One seed's quorum and what happens to it."""

    def __init__(
        self, seed: int, swarm: QuorumSwarm | None = None, *, trace_level: Level = Level.INFO
    ) -> None:
        self.seed = seed
        self.swarm = draw_quorum(seed) if swarm is None else swarm
        self.counts: Counter[str] = Counter()
        self._prng = stream(seed, "quorum faults")
        self._voting = stream(seed, "quorum changes of voters")
        self._wiping = stream(seed, "quorum wiped disks")
        self._appended = 0
        # Nodes that had a snapshot damaged, in order.
        self._damaged: dict[int, None] = {}
        swarm = self.swarm
        self.cluster = QuorumCluster(
            Prng(stream(seed, "quorum").next_u64()),
            composition=Composition(
                swarm.voters,
                swarm.observers,
                dynamic=swarm.dynamic and not swarm.upgrade,
                upgradable=swarm.upgrade,
                snapshot_every=swarm.snapshot_every,
                segment_bytes=swarm.segment_bytes,
                slowness=swarm.slowness,
            ),
            config=replace(
                QUICK,
                disconnect_grace_ms=swarm.disconnect_grace_ms,
                max_retention_bytes=swarm.retention_bytes,
                fetch_snapshot_max_bytes=swarm.piece_bytes,
                auto_join_enable=swarm.auto_join,
            ),
            conditions=Conditions(
                swarm.latency_ms, swarm.flush_ms, swarm.loss_percent, swarm.hold_percent
            ),
            trace_level=trace_level,
        )
        # Called with every line of the trace.
        self.listeners = self.cluster.listeners

    def run(self) -> Outcome:
        """Runs the seed to its end, good or bad."""
        outcome = Outcome(self.seed)
        with outcome.judged():
            outcome.healed_ms = self._run_phases()
        cluster = self.cluster
        outcome.events = cluster.event_count
        outcome.virtual_ms = cluster.now
        outcome.acknowledged = cluster.oracle.end_offset
        outcome.faults = self.counts
        outcome.trace_hash = cluster.trace_hash
        outcome.marks = tuple(cluster.voter_oracle.marks)
        return outcome

    def _run_phases(self) -> int:
        cluster, prng = self.cluster, self._prng
        cluster.start_all()
        for _ in range(self.swarm.steps):
            cluster.run(prng.between(10, self.swarm.gap_ms))
            choice = prng.below(4)
            if choice == 0:
                self._strike(prng.choice(self.swarm.faults))
            elif choice == 1:
                self._recover()
            else:
                self._append()
            if self.swarm.dynamic and self._voting.chance(1, 3):
                self._change_voters()
            if self.swarm.wipes and self._wiping.chance(1, 8):
                self._wipe()
        return self._heal()

    def _change_voters(self) -> None:
        """An operator asks one that takes itself for the leader, now and then for too much."""
        cluster, prng = self.cluster, self._voting
        leaders = cluster.leaders()
        if not leaders:
            return
        asked = prng.choice(leaders)
        if asked.quorum.kraft_version == 0:
            self.counts["upgrade"] += 1
            cluster.note(f"world n{asked.node_id}: upgrade")
            cluster.upgrade(asked)
            return
        for _ in range(prng.choice((1, 1, 1, 2))):
            request = draw_change(prng, asked.quorum, cluster.as_voters, cluster_id=CLUSTER_ID)
            if request is None or not (asked.alive and asked.quorum.is_leader):
                return
            kind = "add-voter" if isinstance(request, AddVoterRequest) else "remove-voter"
            self.counts[kind] += 1
            cluster.note(f"world n{asked.node_id}: {kind} {request.voter.node_id}")
            cluster.change_voters(asked, request)

    def _wipe(self) -> None:
        """The operator waits for a quiet moment, and a voter's disk is lost in it."""
        cluster = self.cluster
        cluster.heal()
        cluster.start_all()
        if not cluster.run_until(self._may_lose_a_disk, QUIET_LIMIT_MS):
            return
        leader = cluster.leader()
        assert leader is not None, "all have what the leader has, so there is a leader"
        victim = cluster.replicas[self._wiping.choice(sorted(leader.quorum.voters))]
        self.counts["wipe"] += 1
        cluster.note(f"world n{victim.node_id}: wiped")
        cluster.kill(victim)
        cluster.wipe(victim)

    def _may_lose_a_disk(self) -> bool:
        """Whether all voters have all that the leader has: three can do without one then, if no
        other one is without its disk."""
        cluster = self.cluster
        leader = cluster.leader()
        # A change that was asked for waits while the leader is busy, and begins with a question.
        if leader is None or leader.busy or leader.quorum.is_changing_voters:
            return False
        if leader.quorum.kraft_version == 0 or len(leader.quorum.voters) < 3:
            return False
        quorum, voters = leader.quorum, leader.quorum.voters
        if voters_without_disk(voters, cluster.as_voters):
            return False
        offset, _ = quorum.voter_sets[-1]
        last = quorum.log_end_offset - 1
        return offset < quorum.high_watermark and all(
            cluster.replicas[key].alive
            and cluster.replicas[key].follows(leader)
            # One that ends there may have to cut what it has of an earlier epoch.
            and cluster.has_record(voter, last, leader.log.epoch_at(last))
            for key, voter in voters.items()
        )

    def _append(self) -> None:
        """Records go to a replica that takes itself for the leader, perhaps wrongly."""
        leaders = self.cluster.leaders()
        if leaders:
            count = self._prng.between(1, 3)
            values = [b"r%d" % (self._appended + index) for index in range(count)]
            self._appended += count
            self.cluster.append(self._prng.choice(leaders), values)

    def _victim(self) -> Replica | None:
        """The leader, or any running replica."""
        leader = self.cluster.leader()
        if leader is not None and self._prng.chance(1, 2):
            return leader
        alive = self.cluster.alive()
        return self._prng.choice(alive) if alive else None

    def _strike(self, kind: str) -> None:
        cluster, victim = self.cluster, self._victim()
        if victim is None:
            return
        self.counts[kind] += 1
        cluster.note(f"world n{victim.node_id}: {kind}")
        others = [node_id for node_id in cluster.replicas if node_id != victim.node_id]
        match kind:
            case "kill":
                cluster.kill(victim)
            case "kill-in-write":
                victim.disk.fuse = self._prng.below(12)
            case "power-cut":
                cluster.cut_power(victim)
            case "power-cut-all":
                for replica in cluster.alive():
                    cluster.cut_power(replica)
            case "isolate":
                for other in others:
                    cluster.cut(victim.node_id, other)
                    cluster.cut(other, victim.node_id)
            case "cut-one-way":
                if others:
                    cluster.cut(victim.node_id, self._prng.choice(others))
            case "suspicion":
                cluster.suspect(victim.node_id)
            case "resign":
                cluster.resign(victim)
            case _:
                assert kind == DAMAGE, f"no fault {kind}"
                self._damage(victim)

    def _damage(self, victim: Replica) -> None:
        """A bit of some snapshot flips; the process finds out when it reads the file."""
        allowed = {*self._damaged, victim.node_id} & set(self.cluster.voters)
        snapshots = victim.quorum.snapshot_paths
        if 2 * len(allowed) >= len(self.cluster.voters) or not snapshots:
            return
        self._damaged[victim.node_id] = None
        path = self._prng.choice(snapshots)
        data = victim.disk.read_file(path)
        if data:
            victim.disk.flip_bit(path, self._prng.below(8 * len(data)))

    def _recover(self) -> None:
        """The links heal, or a dead process starts and was suspected meanwhile, or not."""
        dead = [one for one in self.cluster.replicas.values() if not one.alive]
        if not dead or self._prng.chance(1, 3):
            self.cluster.heal()
            return
        replica = self._prng.choice(dead)
        if self._prng.chance(1, 3):
            self.cluster.suspect(replica.node_id)
            return
        self.cluster.note(f"world n{replica.node_id}: started")
        if self.swarm.dynamic and self._voting.chance(1, 4):
            replica.port += 1
        self.cluster.start(replica)

    def _heal(self) -> int:
        cluster = self.cluster
        cluster.note("world heals")
        cluster.become_calm()
        cluster.heal()
        begun = cluster.now
        for replica in cluster.replicas.values():
            replica.disk.fuse = None
        cluster.start_all()
        if self.swarm.upgrade:
            self._reconfigure()
        if not cluster.run_until(self._is_working, RECOVERY_LIMIT_MS):
            raise Violation("Liveness", f"no working quorum after {RECOVERY_LIMIT_MS} ms")
        healed_ms = cluster.now - begun
        leader = cluster.leader()
        assert leader is not None, "a working quorum has a leader"
        last = cluster.append(leader, [b"the last"])
        assert last is not None, f"n{leader.node_id} does not lead"
        everywhere = cluster.run_until(
            lambda: all(one.quorum.high_watermark > last for one in cluster.alive()), 2_000
        )
        if not everywhere:
            raise Violation("Liveness", "the last record is not committed everywhere")
        return healed_ms

    def _reconfigure(self) -> None:
        """A replica that has not read that the voters are in the log gets addresses to ask."""
        cluster = self.cluster
        cluster.run_until(lambda: cluster.leader() is not None, RECOVERY_LIMIT_MS)
        cluster.run(QUICK.fetch_timeout_ms)
        for replica in cluster.alive():
            if cluster.voter_oracle.in_log and replica.quorum.kraft_version == 0:
                replica.configured = False
                cluster.kill(replica)
                cluster.start(replica)

    def _is_working(self) -> bool:
        """One leader whom all follow and who listens, and everybody has everything."""
        leader = self.cluster.leader()
        return (
            leader is not None
            and not leader.busy
            and all(
                one.follows(leader) and one.quorum.high_watermark == leader.quorum.log_end_offset
                for one in self.cluster.alive()
            )
        )
