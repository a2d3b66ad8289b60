"""Transactors: clients that write transactions, with the offsets of a group, one after the other.

A transactor is a script of requests (`_life`): it asks for its producer, and then begins, fills and
ends transactions. Half of them add partitions themselves, the others leave it to the leaders
(KIP-890). Where a real client would be in doubt it asks for its producer again, which aborts what
was open. Now and then that happens for no reason, as if another process had taken its place; then
the former one, a *zombie*, goes on: it writes and tries to commit (`ZombieIsFenced`).

What became of each transaction is noted for the readers (`transaction_reader.py`): committed,
aborted, or in doubt when a commit was asked for and not answered. In the end every group must be
where the last of its committed transactions left it (`OffsetsWithTheirTransaction`).
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple, TypeVar

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.model import NO_OFFSET, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.sim.engine.formation import WALL_START_MS
from tidelog.sim.report.violation import Violation
from tidelog.sim.workloads.admin import Admin
from tidelog.sim.workloads.cluster_view import TRANSACTIONAL_TOPIC, ClusterView, request
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.values import error_of, millis

PARTITIONS: Final = 3
PAUSE_MS: Final = 60
ATTEMPTS: Final = 12
TIMEOUT_MS: Final = (2_000, 6_000)
_GROUP, _TRANSACTION = 0, 1

_AGAIN: Final = frozenset(
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


class Fate(Enum):
    """What a transactor knows of a transaction."""

    ABORTED = "aborted"
    """Or open: no commit was asked for."""
    DOUBTFUL = "in doubt"
    COMMITTED = "committed"


@dataclass(slots=True, eq=False)
class Transaction:
    """One transaction."""

    number: int
    values: list[str] = field(default_factory=list)
    fate: Fate = Fate.ABORTED
    has_offsets: bool = False
    """Whether it has committed `number` as the offset of the group."""
    seen: set[str] = field(default_factory=set)
    """What readers have seen of it."""


class Identity(NamedTuple):
    """Who writes."""

    producer_id: int
    epoch: int


class _Ask(NamedTuple):
    """A step of a script: a request to a node, whose response comes back, or `None`."""

    node_id: int
    wanted: Entity


T = TypeVar("T")
Steps = Generator[_Ask | int, Entity | None, T]
"""A script, or a part of one: requests and pauses in ms, and what comes of it."""


class Transactor:
    """One transactional id."""

    def __init__(self, view: ClusterView, admin: Admin, prng: Prng, *, flushed: bool) -> None:
        self.view = view
        # By number.
        self.transactions: dict[int, Transaction] = {}
        # The script has come to its end.
        self.is_settled = False
        # What the group has in the end.
        self.final_offset = NO_OFFSET
        self._admin = admin
        self._prng = prng
        # Whether internal topics are to survive power cuts of all replicas.
        self._flushed = flushed
        # Whether it leaves it to leaders to add partitions.
        self._bumps = prng.chance(1, 2)
        self._timeout_ms = prng.between(*TIMEOUT_MS)
        # Nodes by kind of coordinator.
        self._coordinators: dict[int, int] = {}
        # The next sequence by partition, for the present epoch.
        self._sequences: dict[int, int] = {}
        self._stopped = False

    @property
    def name(self) -> str:
        """Its transactional id, and its group."""
        return self.view.name

    def start(self) -> None:
        """Begins to live."""
        self._go_on(self._life(), None)

    def stop(self) -> None:
        """Begins no more transactions."""
        self._stopped = True

    def _go_on(self, script: Steps[None], response: Entity | None) -> None:
        world = self.view.world
        try:
            step = script.send(response)
        except StopIteration:
            self.is_settled = True
            return
        if isinstance(step, int):
            world.at(step, lambda: self._go_on(script, None))
            return
        session = self.view.session(step.node_id)
        key, version = step.wanted.__api_key__, step.wanted.__version__

        def done(frame: bytes | None) -> None:
            found = None if frame is None else codec.decode_response(key, version, frame)[1]
            self._go_on(script, found)

        frame = codec.encode_request(step.wanted, session.correlation_id, self.name)
        session.request(frame, done)

    # The script ----------------------------------------------------------------------------

    def _life(self) -> Steps[None]:
        yield from self._create_topics()
        zombie: tuple[Identity, Transaction] | None = None
        while not self._stopped:
            identity = yield from self._begin_process()
            if identity is None:
                continue
            if zombie is not None:
                yield from self._act_as_zombie(*zombie)
                zombie = None
            while identity is not None and not self._stopped:
                transaction = Transaction(len(self.transactions) + 1)
                self.transactions[transaction.number] = transaction
                before = identity
                identity = yield from self._transact(identity, transaction)
                if identity is None and transaction.fate is Fate.ABORTED:
                    zombie = before, transaction
                yield self._pause()
        yield from self._compare_offsets()

    def _pause(self) -> int:
        return self._prng.between(PAUSE_MS // 4, PAUSE_MS * 2)

    def _create_topics(self) -> Steps[None]:
        flushed = {"flush.messages": "1"} if self._flushed else {}
        compacted = {"cleanup.policy": "compact"} | flushed
        topics = {
            TRANSACTIONS_TOPIC: compacted,
            OFFSETS_TOPIC: compacted,
            TRANSACTIONAL_TOPIC: flushed,
        }
        for topic, configs in topics.items():
            codes: list[ErrorCode | None] = []
            while not self._stopped:
                codes.clear()
                self._admin.create(topic, PARTITIONS, configs, codes.append)
                while not codes:
                    yield PAUSE_MS
                if codes[0] in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    break
                yield self._pause()

    def _insist(
        self, kind: int, wanted: Entity, code_of: Callable[[Entity], ErrorCode]
    ) -> Steps[tuple[ErrorCode | None, Entity | None, bool]]:
        """Asks a coordinator until it says something final: what, and whether some attempt before
        had no answer. `None` when it said nothing."""
        in_doubt = False
        for _ in range(ATTEMPTS):
            node_id = self._coordinators.get(kind)
            if node_id is None:
                node_id = yield from self._find(kind)
            response = None if node_id is None else (yield _Ask(node_id, wanted))
            code = None if response is None else code_of(response)
            if code is not None and code not in _AGAIN:
                return code, response, in_doubt
            in_doubt |= node_id is not None and code is not ErrorCode.CONCURRENT_TRANSACTIONS
            if code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                self._coordinators.pop(kind, None)
            yield self._pause()
        return None, None, True

    def _find(self, kind: int) -> Steps[int | None]:
        wanted = request(ApiKey.FIND_COORDINATOR, 2, key=self.name, key_type=kind)
        response = yield _Ask(self._prng.choice(self.view.brokers), wanted)
        if response is None or error_of(response.error_code) is not ErrorCode.NONE:
            return None
        self._coordinators[kind] = int(response.node_id)
        return self._coordinators[kind]

    def _begin_process(self) -> Steps[Identity | None]:
        wanted = request(
            ApiKey.INIT_PRODUCER_ID,
            4,
            transactional_id=self.name,
            transaction_timeout=millis(self._timeout_ms),
            producer_id=-1,
            producer_epoch=-1,
        )
        code, response, _ = yield from self._insist(_TRANSACTION, wanted, _top_code)
        if code is not ErrorCode.NONE or response is None:
            return None
        self._sequences.clear()
        return Identity(response.producer_id, response.producer_epoch)

    def _transact(self, identity: Identity, transaction: Transaction) -> Steps[Identity | None]:
        """One transaction; who writes the next one, `None` when that must be asked."""
        partitions = sorted(
            {self._prng.below(PARTITIONS) for _ in range(self._prng.between(1, PARTITIONS))}
        )
        if not self._bumps and not (yield from self._add(identity, partitions)):
            return None
        for number in partitions:
            values = [
                f"{self.name}:{transaction.number}:{number}.{index}"
                for index in range(self._prng.between(1, 3))
            ]
            transaction.values += values
            if self._prng.chance(1, 20) or not (yield from self._produce(identity, number, values)):
                return None
        if self._prng.chance(2, 3):
            if not (yield from self._commit_offset(identity, transaction.number)):
                return None
            transaction.has_offsets = True
        return (yield from self._end(identity, transaction, is_commit=self._prng.chance(3, 4)))

    def _add(self, identity: Identity, partitions: Sequence[int]) -> Steps[bool]:
        wanted = request(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            3,
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[{"name": TRANSACTIONAL_TOPIC, "partitions": tuple(partitions)}],
        )
        code, _, _ = yield from self._insist(
            _TRANSACTION,
            wanted,
            lambda found: _worst(
                row.partition_error_code
                for topic in found.results_by_topic_v3_and_below
                for row in topic.results_by_partition
            ),
        )
        return code is ErrorCode.NONE

    def _produce(self, identity: Identity, number: int, values: Sequence[str]) -> Steps[bool]:
        sequence = self._sequences.get(number, 0)
        timestamp = WALL_START_MS + self.view.world.now
        records = build_batch(
            [Record(timestamp, None, value.encode()) for value in values],
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        part = {"index": number, "records": records}
        wanted = request(
            ApiKey.PRODUCE,
            12 if self._bumps else 11,
            transactional_id=self.name,
            acks=-1,
            timeout=millis(2_000),
            topic_data=[{"name": TRANSACTIONAL_TOPIC, "partition_data": [part]}],
        )
        for _ in range(ATTEMPTS):
            leader = self.view.leader_of(TRANSACTIONAL_TOPIC, number)
            response = None if leader is None else (yield _Ask(leader, wanted))
            if response is not None:
                code = error_of(response.responses[0].partition_responses[0].error_code)
                if code is ErrorCode.NONE:
                    self._sequences[number] = sequence + len(values)
                    return True
                if code not in _AGAIN:
                    return False
            self.view.refresh(lambda: None)
            yield self._pause()
        return False

    def _commit_offset(self, identity: Identity, offset: int) -> Steps[bool]:
        who = {
            "transactional_id": self.name,
            "producer_id": identity.producer_id,
            "producer_epoch": identity.epoch,
            "group_id": self.name,
        }
        if not self._bumps:
            wanted = request(ApiKey.ADD_OFFSETS_TO_TXN, 3, **who)
            code, _, _ = yield from self._insist(_TRANSACTION, wanted, _top_code)
            if code is not ErrorCode.NONE:
                return False
        row = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        wanted = request(
            ApiKey.TXN_OFFSET_COMMIT,
            5 if self._bumps else 3,
            generation_id=-1,
            member_id="",
            group_instance_id=None,
            topics=[{"name": TRANSACTIONAL_TOPIC, "partitions": [row]}],
            **who,
        )
        code, _, _ = yield from self._insist(
            _GROUP,
            wanted,
            lambda found: _worst(row.error_code for row in found.topics[0].partitions),
        )
        return code is ErrorCode.NONE

    def _end(
        self, identity: Identity, transaction: Transaction, *, is_commit: bool
    ) -> Steps[Identity | None]:
        if is_commit:
            transaction.fate = Fate.DOUBTFUL
        wanted = self._end_request(identity, is_commit=is_commit)
        code, response, in_doubt = yield from self._insist(_TRANSACTION, wanted, _top_code)
        if code is ErrorCode.NONE and response is not None:
            transaction.fate = Fate.COMMITTED if is_commit else Fate.ABORTED
            if not self._bumps:
                return identity
            self._sequences.clear()
            return Identity(response.producer_id, response.producer_epoch)
        if not in_doubt:
            transaction.fate = Fate.ABORTED
        return None

    def _end_request(self, identity: Identity, *, is_commit: bool) -> Entity:
        return request(
            ApiKey.END_TXN,
            5 if self._bumps else 3,
            transactional_id=self.name,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=is_commit,
        )

    def _act_as_zombie(self, identity: Identity, transaction: Transaction) -> Steps[None]:
        """The process whose place was taken goes on with its transaction."""
        number = self._prng.below(PARTITIONS)
        value = f"{self.name}:{transaction.number}:zombie"
        sequences, self._sequences = self._sequences, {}
        yield from self._produce(identity, number, [value])
        self._sequences = sequences
        wanted = self._end_request(identity, is_commit=True)
        node_id = self._coordinators.get(_TRANSACTION)
        response = None if node_id is None else (yield _Ask(node_id, wanted))
        if response is not None and _top_code(response) is ErrorCode.NONE:
            text = f"{self.name} committed {transaction.number} with epoch {identity.epoch}"
            raise Violation("ZombieIsFenced", text)

    def _compare_offsets(self) -> Steps[None]:
        """Waits until nothing can move the group's offset any more, and notes it."""
        topics = [{"name": TRANSACTIONAL_TOPIC, "partition_indexes": (0,)}]
        wanted = request(
            ApiKey.OFFSET_FETCH, 7, group_id=self.name, topics=topics, require_stable=True
        )
        while any(each.has_offsets for each in self.transactions.values()):
            code, response, _ = yield from self._insist(_GROUP, wanted, _top_code)
            if code is ErrorCode.NONE and response is not None:
                row = response.topics[0].partitions[0]
                if error_of(row.error_code) is ErrorCode.NONE:
                    self.final_offset = int(row.committed_offset)
                    return
            yield PAUSE_MS


def _top_code(response: Entity) -> ErrorCode:
    return error_of(response.error_code)


def _worst(codes: Iterable[Any]) -> ErrorCode:
    """The first error of several rows; none if there is none."""
    found = [error_of(code) for code in codes]
    return next((code for code in found if code is not ErrorCode.NONE), ErrorCode.NONE)
