"""Changes of partitions, configurations and voters while everything else goes on.

`Operator`: who moves replicas, takes the move back, elects leaders and turns the knobs of topics.
Nothing that he does may lose a record, so the promise of the run bounds him: two replicas stay
where there are two brokers, `min.insync.replicas` stays at two or more without group commit and
where files are damaged, and `flush.messages` stays at one with it. Whatever the answer, or none:
the checkers look at records, and in the end no move may be under way.

`VoterOperator`: who adds and removes voters (KIP-853) through any broker, which forwards the
request like any other. He knows the voter set of some running node, so he may be behind. A request
without an answer may still be carried out, later than others: whatever became of it, sets that
follow each other differ in one voter, and a change that was reported as made is made
(`OneChangeAtATime`, `AcknowledgedChange`, in `sim/quorum/membership.py`).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tidelog.config.dynamic_properties import FOLLOWER_RATE, LEADER_RATE, MOVES_RATE
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.kraft import codec as quorum_codec
from tidelog.kraft.messages import AddVoterRequest
from tidelog.sim.engine.formation import CLUSTER_ID
from tidelog.sim.engine.world import World
from tidelog.sim.quorum.membership import VoterOracle, draw_change
from tidelog.sim.workloads.admin import Admin, Coded
from tidelog.sim.workloads.cluster_view import Place, request
from tidelog.wire.api import ApiKey
from tidelog.wire.values import millis

CONFIGS_VERSION: Final = 1
REASSIGN_VERSION: Final = 1
ELECT_VERSION: Final = 2
TIMEOUT_MS: Final = 5_000
VOTER_TIMEOUT_MS: Final = 3_000
TOPIC: Final = 2
BROKERS: Final = 4
MOVES_ARE_SLOWER: Final = 20
"""Logs are small, and nothing waits for a move."""
SET, DELETE = 0, 1


class Operator:
    """One client that reconfigures."""

    def __init__(
        self,
        admin: Admin,
        prng: Prng,
        *,
        group_commit: bool,
        lowest_min_isr: int,
        brokers: list[int],
    ) -> None:
        self._admin = admin
        self._prng = prng
        self._group_commit = group_commit
        self._lowest_min_isr = lowest_min_isr
        self._brokers = brokers
        self._acts: tuple[Callable[[Place], None], ...] = (
            self._move,
            self._move,
            self._cancel,
            self._elect,
            self._configure,
        )

    def act(self, places: list[Place]) -> None:
        """Does something to one of these partitions."""
        self._prng.choice(self._acts)(self._prng.choice(places))

    def _move(self, place: Place) -> None:
        """To other brokers, fewer or more of them, or only into another order."""
        brokers = list(self._brokers)
        self._prng.shuffle(brokers)
        smallest = min(2, len(brokers))
        count = self._prng.between(smallest, min(3, len(brokers)))
        self._reassign(place, brokers[:count])

    def _cancel(self, place: Place) -> None:
        self._reassign(place, None)

    def _reassign(self, place: Place, replicas: list[int] | None) -> None:
        partition = {"partition_index": place.partition, "replicas": replicas}
        self._ask(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            REASSIGN_VERSION,
            timeout=millis(TIMEOUT_MS),
            allow_replication_factor_change=True,
            topics=[{"name": place.name, "partitions": [partition]}],
        )

    def _elect(self, place: Place) -> None:
        self._ask(
            ApiKey.ELECT_LEADERS,
            ELECT_VERSION,
            election_type=0,
            topic_partitions=[{"topic": place.name, "partitions": [place.partition]}],
            timeout=millis(TIMEOUT_MS),
        )

    def _configure(self, place: Place) -> None:
        name, value = self._prng.choice(
            (
                ("min.insync.replicas", str(self._prng.between(self._lowest_min_isr, 3))),
                ("min.insync.replicas", None),
                ("flush.messages", "1"),
                ("unclean.leader.election.enable", "false"),
                ("segment.bytes", str(self._prng.choice((1 << 20, 4 << 20)))),
                # The log of a group commit must not lose it again.
                ("segment.bytes" if self._group_commit else "flush.messages", None),
            )
        )
        operation = DELETE if value is None else SET
        config = {"name": name, "config_operation": operation, "value": value}
        self._ask(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            CONFIGS_VERSION,
            resources=[{"resource_type": TOPIC, "resource_name": place.name, "configs": [config]}],
            validate_only=False,
        )

    def throttle(self, rate: int, done: Coded) -> None:
        """Bounds what followers that lag and moves between disks may move, on all brokers."""
        configs = [
            {"name": name, "config_operation": SET, "value": str(value)}
            for name, value in (
                (LEADER_RATE, rate),
                (FOLLOWER_RATE, rate),
                (MOVES_RATE, rate // MOVES_ARE_SLOWER),
            )
        ]
        resource = {"resource_type": BROKERS, "resource_name": "", "configs": configs}
        wanted = request(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            CONFIGS_VERSION,
            resources=[resource],
            validate_only=False,
        )
        self._admin.ask(wanted, done, lambda answer: answer.responses[0])

    def _ask(self, key: ApiKey, version: int, /, **values: object) -> None:
        # Any answer will do.
        self._admin.send(request(key, version, **values), lambda _: None)


class VoterOperator:
    """One client that changes the voter set, one request at a time."""

    def __init__(self, world: World, admin: Admin, prng: Prng, oracle: VoterOracle) -> None:
        self._world = world
        self._admin = admin
        self._prng = prng
        self._oracle = oracle
        self._waits = False

    def act(self) -> None:
        """Adds or removes a voter, unless the last answer is not there yet."""
        running = self._world.nodes
        if self._waits or not running:
            return
        quorum = self._prng.choice(running).broker.quorum
        seats = self._world.as_voters
        if not quorum.voters.keys() <= seats.keys() or not quorum.voters:
            return
        change = draw_change(self._prng, quorum, seats, cluster_id=CLUSTER_ID)
        if change is None:
            return
        if isinstance(change, AddVoterRequest):
            change = replace(change, timeout_ms=VOTER_TIMEOUT_MS)
        since = self._oracle.committed_end
        self._waits = True
        self._world.note(f"world voters: {type(change).__name__} {change.voter.node_id}")

        def done(code: ErrorCode | None) -> None:
            self._waits = False
            if code is ErrorCode.NONE:
                self._oracle.check_acknowledged(change, since)

        self._admin.ask(quorum_codec.request_to_entity(change), done)
