"""Clients that are scripts: what they ask for one after the other, and what they do with answers.

A script is a generator. It yields a request to a node and gets the response, or `None` when there
is none; or it yields a pause in ms. Parts of scripts are scripts (`yield from`). So a client whose
next step depends on the last answer reads from top to bottom.

`ScriptedClient` runs them, one request under way, and finds coordinators as clients do: it keeps
the one that FindCoordinator has named until that one says that it is not, or says nothing.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.sim.workloads.admin import Admin
from tidelog.sim.workloads.cluster_view import ClusterView, request
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.values import error_of

PAUSE_MS: Final = 60
ATTEMPTS: Final = 12
GROUP: Final = 0
TRANSACTION: Final = 1
"""Kinds of coordinators, by what FindCoordinator calls them."""

AGAIN: Final = frozenset(
    (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
    )
)
"""After these the same request is sent again."""


class Ask(NamedTuple):
    """A step of a script: a request to a node, whose response comes back, or `None`."""

    node_id: int
    wanted: Entity


T = TypeVar("T")
Steps = Generator[Ask | int, Entity | None, T]
"""A script, or a part of one: requests and pauses in ms, and what comes of it."""


class ScriptedClient:
    """One client: its connections, and the coordinators that it knows."""

    def __init__(self, view: ClusterView, prng: Prng, keys: Mapping[int, str]) -> None:
        """`keys` are what coordinators are looked for by: a group, a transactional id."""
        self.view = view
        self._prng = prng
        self._keys = keys
        # Nodes by kind of coordinator.
        self.coordinators: dict[int, int] = {}
        # Whether its script has come to its end.
        self.has_ended = False

    def run(self, script: Steps[None]) -> None:
        """Begins its script."""
        self._go_on(script, None)

    def _go_on(self, script: Steps[None], response: Entity | None) -> None:
        try:
            step = script.send(response)
        except StopIteration:
            self.has_ended = True
            return
        if isinstance(step, int):
            self.view.world.at(step, lambda: self._go_on(script, None))
            return
        session = self.view.session(step.node_id)
        key, version = step.wanted.__api_key__, step.wanted.__version__

        def done(frame: bytes | None) -> None:
            found = None if frame is None else codec.decode_response(key, version, frame)[1]
            self._go_on(script, found)

        frame = codec.encode_request(step.wanted, session.correlation_id, self.view.name)
        session.request(frame, done)

    def pause(self) -> int:
        """How long it waits between two steps."""
        return self._prng.between(PAUSE_MS // 4, PAUSE_MS * 2)

    def insist(
        self, kind: int, wanted: Entity, code_of: Callable[[Entity], ErrorCode]
    ) -> Steps[tuple[ErrorCode | None, Entity | None, bool]]:
        """Asks a coordinator until it says something final: what, and whether some attempt before
        had no answer. `None` when it said nothing."""
        in_doubt = False
        for _ in range(ATTEMPTS):
            node_id = self.coordinators.get(kind)
            if node_id is None:
                node_id = yield from self._find(kind)
            response = None if node_id is None else (yield Ask(node_id, wanted))
            code = None if response is None else code_of(response)
            if code is not None and code not in AGAIN:
                return code, response, in_doubt
            in_doubt |= node_id is not None and code is not ErrorCode.CONCURRENT_TRANSACTIONS
            if code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                self.coordinators.pop(kind, None)
            yield self.pause()
        return None, None, True

    def _find(self, kind: int) -> Steps[int | None]:
        wanted = request(ApiKey.FIND_COORDINATOR, 2, key=self._keys[kind], key_type=kind)
        response = yield Ask(self._prng.choice(self.view.brokers), wanted)
        if response is None or error_of(response.error_code) is not ErrorCode.NONE:
            return None
        self.coordinators[kind] = int(response.node_id)
        return self.coordinators[kind]

    def insist_on_leader(
        self, topic: str, number: int, wanted: Entity, code_of: Callable[[Entity], ErrorCode]
    ) -> Steps[ErrorCode | None]:
        """Asks the leader of a partition until it says something final; `None` when it does not."""
        for _ in range(ATTEMPTS):
            leader = self.view.leader_of(topic, number)
            response = None if leader is None else (yield Ask(leader, wanted))
            if response is not None and (code := code_of(response)) not in AGAIN:
                return code
            self.view.refresh(lambda: None)
            yield self.pause()
        return None

    def create_topics(
        self,
        admin: Admin,
        partitions: int,
        topics: Mapping[str, Mapping[str, str]],
        is_stopped: Callable[[], bool],
    ) -> Steps[None]:
        """Creates topics, by name, with their configs; gives up when it is stopped."""
        for topic, configs in topics.items():
            codes: list[ErrorCode | None] = []
            while not is_stopped():
                codes.clear()
                admin.create(topic, partitions, configs, codes.append)
                while not codes:
                    yield PAUSE_MS
                if codes[0] in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    break
                yield self.pause()


def top_code(response: Entity) -> ErrorCode:
    """The error of a response as a whole."""
    return error_of(response.error_code)


def worst(codes: Iterable[Any]) -> ErrorCode:
    """The first error of several rows; none if there is none."""
    found = [error_of(code) for code in codes]
    return next((code for code in found if code is not ErrorCode.NONE), ErrorCode.NONE)
