"""A client that sends as much as it can, beyond its quota and without keeping any pause.

It gives its client id a quota, and sends bursts of Produce requests to one node for a while, then
to another. Their topic does not exist: a request counts against the quota whatever comes of it.

Checked at each answer (*QuotaInTheLongRun*): the bytes that a process has answered are at most the
quota for the time since the first of them was sent and a window, and `TOLERANCE` of that for the
requests behind each pause. A process may be asked before it knows the quota; so the client asks
only those whose metadata has it.
"""

from typing import Final

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.metadata.quotas import CLIENT_ID, PRODUCE
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.security.quota_meters import USUAL
from tidelog.sim.engine.formation import WALL_START_MS
from tidelog.sim.report.violation import Violation
from tidelog.sim.workloads.cluster_view import ClusterView, request
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.values import error_of, millis

NAME: Final = "greedy"
RATE: Final = 1000
"""Bytes a second."""
BURST: Final = 10
MOST_IN_FLIGHT: Final = 50
TOLERANCE: Final = 0.3
PRODUCE_VERSION: Final = 9
ALTER_VERSION: Final = 1

_SUBJECT: Final = ((CLIENT_ID, NAME),)
_REQUEST_BYTES: Final = 100
"""At least."""


class Greedy:
    """One client with a quota."""

    def __init__(self, view: ClusterView, administrator: ClusterView, prng: Prng) -> None:
        self._view = view
        self._administrator = administrator
        self._prng = prng
        self._target = prng.choice(view.brokers)
        # Requests without an outcome.
        self._in_flight = 0
        # Whether the quota is there, or being asked for.
        self._has_quota = False
        # By node and life: when its first request was sent, and bytes that were answered.
        self._used: dict[tuple[int, int], tuple[int, int]] = {}

    def act(self) -> None:
        """Sends a burst, if not too much is under way."""
        host = self._view.world.hosts[self._target]
        node = host.node
        if not self._has_quota:
            self._set_quota()
        elif node is None or _SUBJECT not in node.broker.image.quotas or self._prng.chance(1, 200):
            self._target = self._prng.choice(self._view.brokers)
        elif self._in_flight < MOST_IN_FLIGHT:
            for _ in range(BURST):
                self._send(self._target, host.life)

    def _set_quota(self) -> None:
        self._has_quota = True
        entry = {
            "entity": [{"entity_type": CLIENT_ID, "entity_name": NAME}],
            "ops": [{"key": PRODUCE, "value": float(RATE), "remove": False}],
        }

        def answered(answer: Entity | None) -> None:
            codes = [] if answer is None else [error_of(row.error_code) for row in answer.entries]
            self._has_quota = codes == [ErrorCode.NONE]

        wanted = request(
            ApiKey.ALTER_CLIENT_QUOTAS, ALTER_VERSION, entries=[entry], validate_only=False
        )
        self._administrator.ask(wanted, answered)

    def _send(self, node_id: int, life: int) -> None:
        world = self._view.world
        self._used.setdefault((node_id, life), (world.now, 0))
        self._in_flight += 1

        def answered(answer: Entity | None) -> None:
            self._in_flight -= 1
            if answer is None or world.hosts[node_id].life != life:
                return
            began, used = self._used[node_id, life]
            used += _REQUEST_BYTES
            self._used[node_id, life] = began, used
            allowed = RATE * (world.now - began + USUAL.whole_ms) / 1000
            if used > allowed * (1 + TOLERANCE):
                text = f"node {node_id} took {used} bytes, and {allowed:.0f} were allowed"
                raise Violation("QuotaInTheLongRun", text)

        self._view.ask(_produce(), answered, node_id)


def _produce() -> Entity:
    records = build_batch([Record(WALL_START_MS, None, b"more")])
    data = {"name": "q1", "partition_data": [{"index": 0, "records": records}]}
    return request(
        ApiKey.PRODUCE,
        PRODUCE_VERSION,
        transactional_id=None,
        acks=1,
        timeout=millis(1000),
        topic_data=[data],
    )
