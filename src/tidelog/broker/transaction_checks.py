"""Questions of this node's leaders to the coordinators of transactions (KIP-890).

A leader asks whether its partition is in a producer's transaction, or to add it
(`replication/verification.py`). All questions of a tick for one coordinator travel in one
AddPartitionsToTxn, in the version that is for brokers; this node asks itself in the same way.
A coordinator that does not answer, or is not known, is an error for the client, which asks again.

A producer of transaction version 2 may begin a transaction before the last one is complete
everywhere. Its client adds no partitions, so the wait is here: CONCURRENT_TRANSACTIONS is asked
again until `add.partitions.to.txn.retry.backoff.max.ms` have passed.

Invariant: every question is answered, once (EveryCallEnds).

Source: KIP-890; Kafka's AddPartitionsToTxnManager.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidelog.broker.peers import PeerChannels, Purpose
from tidelog.config import NodeConfig
from tidelog.env.instant import Instant, earliest
from tidelog.errors import ErrorCode
from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage
from tidelog.model import TRANSACTIONS_TOPIC, TopicPartition
from tidelog.replication.messages import TransactionalProducer, VerifyTransaction
from tidelog.replication.replicas import Replicas
from tidelog.rsm.placement import leader_of
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, make
from tidelog.wire.values import error_of

SENT_VERSION: Final = 5


class _Check(NamedTuple):
    """One question."""

    question: VerifyTransaction
    retry_until: Instant
    """When to ask no more about a producer that is busy with its last transaction."""


@dataclass(frozen=True, slots=True)
class _Request:
    """The questions that travel together: at most one producer of each transactional id."""

    checks: dict[str, list[_Check]] = field(default_factory=dict)

    def takes(self, producer: TransactionalProducer) -> bool:
        """Whether a question about this producer fits in."""
        known = self.checks.get(producer.transactional_id)
        return known is None or known[0].question.producer == producer

    def entity(self) -> Entity:
        """As it is sent."""
        transactions = []
        for transactional_id, checks in self.checks.items():
            producer = checks[0].question.producer
            topics: dict[str, list[int]] = {}
            for check in checks:
                topic, number = check.question.topic_partition
                topics.setdefault(topic, []).append(number)
            transactions.append(
                {
                    "transactional_id": transactional_id,
                    "producer_id": producer.producer_id,
                    "producer_epoch": producer.producer_epoch,
                    "verify_only": not producer.bumps_epoch,
                    "topics": [
                        {"name": name, "partitions": tuple(numbers)}
                        for name, numbers in topics.items()
                    ],
                }
            )
        request_type = codec.request_class(ApiKey.ADD_PARTITIONS_TO_TXN, SENT_VERSION)
        return make(request_type, transactions=transactions)


class TransactionChecks:
    """The questions of one node."""

    def __init__(self, config: NodeConfig, replicas: Replicas, peers: PeerChannels) -> None:
        self._config = config
        self._replicas = replicas
        self._peers = peers
        # The newest image, for the leaders of `__transaction_state`.
        self._image: MetadataImage = EMPTY_IMAGE
        # Questions of this tick.
        self._fresh: list[_Check] = []
        # Questions to ask again, with the time.
        self._waiting: list[tuple[Instant, _Check]] = []

    def on_image(self, image: MetadataImage) -> None:
        """Learns who coordinates which transactions."""
        self._image = image

    def ask(self, question: VerifyTransaction, now: Instant) -> None:
        """Takes a question; it ends in `TransactionPart.on_transaction_verified`."""
        retry_ms = self._config.broker.add_partitions_retry_max_ms
        self._fresh.append(_Check(question, Instant(now + retry_ms)))

    def flow(self, now: Instant) -> bool:
        """Sends what is to be asked now; returns whether there was anything."""
        if self._waiting:
            self._fresh += [check for at, check in self._waiting if at <= now]
            self._waiting = [each for each in self._waiting if each[0] > now]
        if not self._fresh:
            return False
        fresh, self._fresh = self._fresh, []
        requests: dict[int, list[_Request]] = {}
        for check in fresh:
            producer = check.question.producer
            coordinator = self._coordinator_of(producer.transactional_id)
            if coordinator is None:
                self._answer(check, ErrorCode.COORDINATOR_NOT_AVAILABLE, now)
                continue
            open_requests = requests.setdefault(coordinator, [])
            request = next((each for each in open_requests if each.takes(producer)), None)
            if request is None:
                request = _Request()
                open_requests.append(request)
            request.checks.setdefault(producer.transactional_id, []).append(check)
        for coordinator, batch in requests.items():
            for request in batch:
                self._send(coordinator, request, now)
        return True

    def _coordinator_of(self, transactional_id: str) -> int | None:
        """The broker that leads the transaction's partition, if it can be reached."""
        leader = leader_of(self._image, TRANSACTIONS_TOPIC, transactional_id)
        is_known = leader is not None and self._peers.knows(leader, Purpose.TRANSACTION_CHECK)
        return leader if is_known else None

    def _send(self, coordinator: int, request: _Request, now: Instant) -> None:
        client_id = f"broker-{self._config.node_id}"
        deadline = Instant(now + self._config.broker.request_timeout_ms)
        purpose = Purpose.TRANSACTION_CHECK
        self._peers.ask(coordinator, purpose, request.entity(), client_id, request, deadline)

    # Answers ----------------------------------------------------------------------------------

    def on_answered(self, token: object, frame: memoryview | bytes, now: Instant) -> None:
        """A coordinator answered. Raises `MalformedFrame`."""
        assert isinstance(token, _Request), f"unexpected token {token!r}"
        _, entity = codec.decode_response(ApiKey.ADD_PARTITIONS_TO_TXN, SENT_VERSION, frame)
        every = error_of(entity.error_code)
        for transactional_id, checks in token.checks.items():
            codes = _codes_of(entity, transactional_id)
            for check in checks:
                code = every
                if code is ErrorCode.NONE:
                    missing = ErrorCode.UNKNOWN_SERVER_ERROR
                    code = codes.get(check.question.topic_partition, missing)
                self._on_code(check, code, now)

    def _on_code(self, check: _Check, code: ErrorCode, now: Instant) -> None:
        bumps_epoch = check.question.producer.bumps_epoch
        if code is ErrorCode.CONCURRENT_TRANSACTIONS and bumps_epoch and now < check.retry_until:
            backoff_ms = self._config.broker.add_partitions_retry_backoff_ms
            self._waiting.append((Instant(now + backoff_ms), check))
        else:
            self._answer(check, code, now)

    def on_failed(self, token: object, now: Instant) -> None:
        """A coordinator did not answer."""
        assert isinstance(token, _Request), f"unexpected token {token!r}"
        for checks in token.checks.values():
            for check in checks:
                self._answer(check, ErrorCode.NETWORK_EXCEPTION, now)

    def _answer(self, check: _Check, code: ErrorCode, now: Instant) -> None:
        self._replicas.transactions.on_transaction_verified(check.question.token, code, now)

    def deadline(self) -> Instant | None:
        """When something is to be asked again."""
        return earliest(*(at for at, _ in self._waiting)) if self._waiting else None

    def check(self) -> None:
        """Asserts that nothing is left over from a tick."""
        assert not self._fresh, f"EveryCallEnds: {len(self._fresh)} questions were not asked"


def _codes_of(entity: Entity, transactional_id: str) -> Mapping[TopicPartition, ErrorCode]:
    """What a coordinator says about a transaction, by partition."""
    return {
        TopicPartition(topic.name, row.partition_index): error_of(row.partition_error_code)
        for result in entity.results_by_transaction
        if result.transactional_id == transactional_id
        for topic in result.topic_results
        for row in topic.results_by_partition
    }
