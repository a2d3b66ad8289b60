"""One seed, one story: a quorum under faults drawn from the seed, then healed.

`play` first draws the weather (how many voters, how slow the network and the disks, how much is
lost), then lets faults and appends happen for a while, and finally heals everything and expects a
working quorum: one leader, everybody caught up, a new record committed everywhere. The oracle of
the cluster watches all along.
"""

from dataclasses import dataclass, replace

from tests.unit.kraft.cluster import Cluster, Conditions, Replica
from tidelog.config import QuorumConfig
from tidelog.env.prng import Prng
from tidelog.kraft.quorum import Quorum

QUICK = QuorumConfig(
    election_timeout_ms=200,
    fetch_timeout_ms=400,
    election_backoff_max_ms=200,
    request_timeout_ms=400,
    fetch_max_wait_ms=100,
    first_election_max_ms=50,
)
"""Kafka's timers divided by five: more happens in a virtual second."""

RECOVERY_LIMIT_MS = 20_000
"""A healed quorum works again within this."""


@dataclass(slots=True)
class Story:
    """A cluster and what happened to it."""

    cluster: Cluster
    prng: Prng
    appended: int = 0
    faults: int = 0

    def append_somewhere(self) -> None:
        """A client sends records to somebody who believes to lead, perhaps wrongly."""
        leaders = [one for one in self.cluster.alive() if one.quorum.is_leader]
        if leaders:
            values = [b"r%d" % (self.appended + index) for index in range(self.prng.between(1, 3))]
            self.appended += len(values)
            self.cluster.append(self.prng.choice(leaders), *values)

    def strike(self) -> None:
        """One random fault, or the end of one."""
        cluster, prng = self.cluster, self.prng
        self.faults += 1
        alive = cluster.alive()
        dead = [one for one in cluster.replicas.values() if not one.alive]
        draw = prng.below(100)
        if draw < 15 and alive:
            cluster.kill(prng.choice(alive).node_id)
        elif draw < 30 and alive:
            victim = prng.choice(alive)
            cluster.cut_power(victim.node_id, torn=prng.chance(1, 2))
            if prng.chance(1, 2):
                # Back at once: what it forgot is still in everybody's memory.
                self.restart(victim)
        elif draw < 60 and dead:
            self.restart(prng.choice(dead))
        elif draw < 70 and dead:
            cluster.suspect(prng.choice(dead).node_id)
        elif draw < 73 and alive:
            # A false alarm.
            cluster.suspect(prng.choice(alive).node_id)
        elif draw < 78:
            cluster.isolate(prng.choice(list(cluster.replicas)))
        elif draw < 84:
            ids = list(cluster.replicas)
            one, other = prng.choice(ids), prng.choice(ids)
            if one != other:
                cluster.cut(one, other, both=prng.chance(1, 2))
        elif draw < 94:
            cluster.heal()
        elif alive:
            tired = prng.choice(alive)
            tired.quorum.resign(cluster.now)
            tired.end_tick()

    def restart(self, replica: Replica) -> None:
        """The process comes back."""
        replica.start()

    def heal(self) -> None:
        """Everything works again; the quorum must find itself."""
        cluster = self.cluster
        cluster.heal()
        cluster.conditions = Conditions(latency_ms=(1, 3), flush_ms=(1, 3))
        for replica in cluster.replicas.values():
            if not replica.alive:
                self.restart(replica)
        recovered = cluster.run_until(self.is_working, RECOVERY_LIMIT_MS)
        assert recovered, f"no working quorum {RECOVERY_LIMIT_MS} ms after the end of faults"
        leader = cluster.leader
        assert leader is not None
        last = cluster.append(leader, b"the last")
        assert last is not None
        assert cluster.run_until(
            lambda: all(one.quorum.high_watermark > last for one in cluster.alive()), 2000
        ), "the last record is not committed everywhere"
        contents = [list(one.committed) for one in cluster.alive()]
        assert all(content == contents[0] for content in contents), "replicas differ"

    def is_working(self) -> bool:
        """One leader whom all follow, and everybody has everything."""
        leader = self.cluster.leader
        if leader is None:
            return False
        quorum = leader.quorum
        return all(
            one.quorum.leader_id == leader.node_id
            and one.quorum.epoch == quorum.epoch
            and one.quorum.high_watermark == quorum.log_end_offset
            for one in self.cluster.alive()
        )


def play(seed: int, *, steps: int = 25, quorum_type: type[Quorum] = Quorum) -> Story:
    """Plays one seed to its good end; an `AssertionError` names what was violated."""
    prng = Prng(seed)
    slow = prng.choice((5, 20, 20, 120))
    # In a storm faults hit while elections are under way, again and again.
    is_storm = prng.chance(1, 4)
    conditions = Conditions(
        latency_ms=(1, slow),
        flush_ms=(1, prng.choice((2, 10, 60)) if not is_storm else 60),
        loss_percent=prng.choice((0, 0, 5, 20)),
    )
    config = replace(QUICK, disconnect_grace_ms=prng.choice((0, 500)))
    cluster = Cluster(
        prng.next_u64(),
        voter_count=prng.choice((1, 3, 3, 3, 5)),
        observer_count=prng.below(2),
        config=config,
        conditions=conditions,
        quorum_type=quorum_type,
    )
    story = Story(cluster, prng)
    cluster.start()
    for _ in range(3 * steps if is_storm else steps):
        cluster.run(prng.between(5, 40) if is_storm else prng.between(10, prng.choice((60, 300))))
        if prng.chance(1, 2):
            story.strike()
        else:
            story.append_somewhere()
    story.heal()
    return story
