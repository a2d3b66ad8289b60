"""What is asked of a transaction coordinator, and what it answers: plain values without versions.

Every request names its transactional id first. Every request has one answer: its own result, or a
`Refused` when the coordinator could not look at it at all. Some decisions need a new producer id,
which only the controller has: the answer is `ProducerIdNeeded`, nothing has changed, and the
request comes again with one.
"""

from typing import NamedTuple

from tidelog.errors import ErrorCode
from tidelog.model import NO_PRODUCER_ID, TopicPartition
from tidelog.rsm.coordinator import Refused
from tidelog.transactions.records import NO_PRODUCER_EPOCH, Transaction


class ProducerIdNeeded(NamedTuple):
    """The request must come again with `fresh_producer_id`."""


class InitProducerId(NamedTuple):
    """API 22: to be the producer of a transactional id from now on; all before are fenced."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    """With the epoch: what the producer has been until now (KIP-360); -1 for a new one."""
    producer_epoch: int = NO_PRODUCER_EPOCH
    fresh_producer_id: int = NO_PRODUCER_ID


class ProducerGranted(NamedTuple):
    """With what the producer writes from now on; answers InitProducerId and EndTransaction."""

    error_code: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class AddPartitions(NamedTuple):
    """API 24 and 25: the transaction has, or will have, records in these partitions."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    client_version: int
    """2 when a broker adds them for the producer, 0 when the producer does."""


class VerifyPartitions(NamedTuple):
    """API 24 with `verifyOnly`: whether these partitions are in the transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]


class PartitionsResult(NamedTuple):
    """One code for all partitions of the request, apart from those that are missing."""

    error_code: ErrorCode
    missing: frozenset[TopicPartition] = frozenset()
    """Not in the transaction, which a verification asked about."""


class EndTransaction(NamedTuple):
    """API 26: the transaction is over."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    client_version: int
    """2: the next transaction gets an epoch of its own."""
    fresh_producer_id: int = NO_PRODUCER_ID


class DescribeTransaction(NamedTuple):
    """API 65: what is known about a transactional id."""

    transactional_id: str


class Description(NamedTuple):
    """`None` for an id that is not known."""

    transaction: Transaction | None


Request = InitProducerId | AddPartitions | VerifyPartitions | EndTransaction | DescribeTransaction
Response = Refused | ProducerIdNeeded | ProducerGranted | PartitionsResult | Description


class Marker(NamedTuple):
    """The end of a transaction, for the leaders of its partitions."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    client_version: int
    coordinator_epoch: int
    """The leader epoch of the coordinator's partition."""
