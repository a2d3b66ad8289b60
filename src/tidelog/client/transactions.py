"""What an administrator asks about transactions, and how one is ended that its coordinator forgot.

The coordinator of a transactional id knows its transaction. The leader of a partition knows the
producers that write to it and where their open transactions begin. A transaction *hangs* where a
leader has it open and no coordinator has: then nothing ends it, and readers of committed data wait
at its first record for ever. `abort` writes the marker that its coordinator would have written.

Errors that stay are `AdminError`; `coordinators.py` has which pass.

Source: KIP-664.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidelog.client.blocking import Brokers
from tidelog.client.coordinators import TRANSACTION, Coordinators, metadata_of
from tidelog.client.core.calls import request
from tidelog.client.core.errors import AdminError, refusal
from tidelog.client.core.values import Address
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of, to_millis, to_timestamp_ms


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id in a list."""

    transactional_id: str
    state: str
    """`Empty`, `Ongoing`, `PrepareCommit`, `PrepareAbort`, `CompleteCommit`, `CompleteAbort`."""
    producer_id: int
    coordinator: int
    """The broker that answers for it."""


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """What a coordinator knows about a transactional id."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int
    """When its transaction began, in ms since 1970; -1 when none is open."""
    partitions: tuple[TopicPartition, ...]
    """Those that the transaction writes to, or that still wait for its marker."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction as the leader of one of its partitions sees it."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    """Of the last marker of this producer; -1 before the first."""
    start_offset: int
    last_timestamp_ms: int
    """Of the producer's last record."""


class Transactions:
    """The transactions of a cluster, for administrators."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._coordinators = Coordinators(brokers, TRANSACTION)

    def list(self, producer_ids: Sequence[int] = ()) -> Sequence[TransactionListing]:
        """All transactional ids, or those of some producers, by name."""
        call = request(
            ApiKey.LIST_TRANSACTIONS,
            state_filters=(),
            producer_id_filters=tuple(producer_ids),
            duration_filter=-1,
        )
        found = [
            TransactionListing(
                each.transactional_id, each.transaction_state, each.producer_id, node_id
            )
            for node_id, answer in self._coordinators.ask_each(call, "list the transactions")
            for each in answer.transaction_states
        ]
        return sorted(found, key=lambda each: each.transactional_id)

    def describe(self, transactional_id: str) -> TransactionDescription:
        """One transactional id. Raises `AdminError` for one that is not known."""
        call = request(ApiKey.DESCRIBE_TRANSACTIONS, transactional_ids=(transactional_id,))
        found = self._coordinators.ask(
            transactional_id,
            call,
            f"describe transactional id `{transactional_id}`",
            lambda answer: answer.transaction_states[0],
        )
        return TransactionDescription(
            transactional_id,
            found.transaction_state,
            found.producer_id,
            found.producer_epoch,
            to_millis(found.transaction_timeout),
            to_timestamp_ms(found.transaction_start_time),
            tuple(
                TopicPartition(topic.topic, number)
                for topic in found.topics
                for number in topic.partitions
            ),
        )

    def open_in(self, topics: Sequence[str] | None) -> Sequence[OpenTransaction]:
        """The open transactions in the partitions of these topics, `None` for all, as their
        leaders have them. Partitions without a leader are left out."""
        metadata = metadata_of(self._brokers, topics)
        by_leader: dict[Address, dict[str, list[int]]] = {}
        for tp, leader in sorted(metadata.leaders.items()):
            if leader.node_id in metadata.brokers:
                led = by_leader.setdefault(metadata.brokers[leader.node_id], {})
                led.setdefault(tp.topic, []).append(tp.partition)
        return [
            found
            for address, led in by_leader.items()
            for found in self._open_at(address, led)
            if found.start_offset >= 0
        ]

    def hanging(
        self, topics: Sequence[str] | None, older_than_ms: int
    ) -> Sequence[OpenTransaction]:
        """The transactions that no coordinator will end. Younger ones are not looked at, because
        their coordinators may be about to end them."""
        latest_ms = int(time.time() * 1000) - older_than_ms
        old = [each for each in self.open_in(topics) if each.last_timestamp_ms <= latest_ms]
        if not old:
            return []
        names = {
            each.producer_id: each.transactional_id
            for each in self.list([each.producer_id for each in old])
        }
        return [each for each in old if not self._has_coordinator(each, names)]

    def abort(self, topic: str, partition: int, start_offset: int) -> OpenTransaction:
        """Aborts the transaction that begins at this offset of a partition. Raises `AdminError`
        when there is none."""
        what = f"abort the transaction at offset {start_offset} of `{topic}-{partition}`"
        found = [
            each
            for each in self.open_in([topic])
            if (each.partition, each.start_offset) == (partition, start_offset)
        ]
        if not found:
            raise refusal(ErrorCode.INVALID_TXN_STATE, "no open transaction begins there", what)
        marker = {
            "producer_id": found[0].producer_id,
            "producer_epoch": found[0].producer_epoch,
            "transaction_result": False,
            "topics": [{"name": topic, "partition_indexes": [partition]}],
            # A producer without a marker has not shown the epoch of any coordinator.
            "coordinator_epoch": max(0, found[0].coordinator_epoch),
            "transaction_version": 0,
        }
        call = request(ApiKey.WRITE_TXN_MARKERS, markers=[marker])

        def attempt() -> Any:
            metadata = metadata_of(self._brokers, [topic])
            leader = metadata.leader_of(TopicPartition(topic, partition))
            answer = self._brokers.node(metadata.address_of(leader.node_id), call)
            return answer.markers[0].topics[0].partitions[0]

        self._coordinators.retrying(attempt, what)
        return found[0]

    def _open_at(
        self, address: Address, led: Mapping[str, Sequence[int]]
    ) -> Sequence[OpenTransaction]:
        rows = [{"name": name, "partition_indexes": numbers} for name, numbers in led.items()]
        answer = self._brokers.node(address, request(ApiKey.DESCRIBE_PRODUCERS, topics=rows))
        return [
            OpenTransaction(
                topic.name,
                row.partition_index,
                each.producer_id,
                each.producer_epoch,
                each.coordinator_epoch,
                each.current_txn_start_offset,
                each.last_timestamp,
            )
            for topic in answer.topics
            for row in topic.partitions
            if error_of(row.error_code) is ErrorCode.NONE
            for each in row.active_producers
        ]

    def _has_coordinator(self, found: OpenTransaction, names: Mapping[int, str]) -> bool:
        """Whether a coordinator knows of a transaction in this partition."""
        if found.producer_id not in names:
            return False
        try:
            known = self.describe(names[found.producer_id])
        except AdminError as error:
            if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return False
            raise
        return (
            known.producer_id == found.producer_id
            and TopicPartition(found.topic, found.partition) in known.partitions
        )
