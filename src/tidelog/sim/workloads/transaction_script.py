"""What a client asks for in its transactions, as parts of its script.

Half of the clients add partitions and offsets themselves, the others leave it to the leaders and to
the group's coordinator (KIP-890), and get the epoch of the next transaction with the end of each.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.sim.engine.formation import WALL_START_MS
from tidelog.sim.workloads.cluster_view import request
from tidelog.sim.workloads.script import GROUP, TRANSACTION, ScriptedClient, Steps, top_code, worst
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.values import error_of, millis

TIMEOUT_MS: Final = (2_000, 6_000)


class Identity(NamedTuple):
    """Who writes."""

    producer_id: int
    epoch: int


class Committer(NamedTuple):
    """For whom offsets are committed: a member of a group, or anyone."""

    group: str
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


class Ended(NamedTuple):
    """What became of the end of a transaction."""

    code: ErrorCode | None
    """`None` when nothing final was said."""
    in_doubt: bool
    """Whether the end may come into force, or may have, though an error was answered."""
    successor: Identity | None
    """Who writes the next one, without an error."""


class TransactionalProducer:
    """One transactional id, that of its client, which writes to one topic."""

    def __init__(self, client: ScriptedClient, topic: str, prng: Prng) -> None:
        self._client = client
        self._topic = topic
        # Whether it leaves it to leaders to add partitions.
        self.bumps = prng.chance(1, 2)
        self._timeout_ms = prng.between(*TIMEOUT_MS)
        # The next sequence by partition, for the present epoch.
        self._sequences: dict[int, int] = {}

    @property
    def _name(self) -> str:
        return self._client.view.name

    def begin(self) -> Steps[Identity | None]:
        """Asks for its producer, which fences the former one and ends what that has left open."""
        wanted = request(
            ApiKey.INIT_PRODUCER_ID,
            4,
            transactional_id=self._name,
            transaction_timeout=millis(self._timeout_ms),
            producer_id=-1,
            producer_epoch=-1,
        )
        code, response, _ = yield from self._client.insist(TRANSACTION, wanted, top_code)
        if code is not ErrorCode.NONE or response is None:
            return None
        self._sequences.clear()
        return Identity(response.producer_id, response.producer_epoch)

    def add(self, identity: Identity, partitions: Collection[int]) -> Steps[bool]:
        """Adds partitions, where that is not left to leaders. Returns whether it may write."""
        if self.bumps:
            return True
        wanted = request(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            3,
            v3_and_below_transactional_id=self._name,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[{"name": self._topic, "partitions": tuple(partitions)}],
        )
        code, _, _ = yield from self._client.insist(
            TRANSACTION,
            wanted,
            lambda found: worst(
                row.partition_error_code
                for topic in found.results_by_topic_v3_and_below
                for row in topic.results_by_partition
            ),
        )
        return code is ErrorCode.NONE

    def produce(
        self, identity: Identity, number: int, values: Sequence[str], *, is_zombie: bool = False
    ) -> Steps[bool]:
        """Writes values to a partition; a zombie knows no sequence."""
        sequence = 0 if is_zombie else self._sequences.get(number, 0)
        timestamp = WALL_START_MS + self._client.view.world.now
        records = build_batch(
            [Record(timestamp, None, value.encode()) for value in values],
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        wanted = produce_request(
            self._topic, number, records, version=12 if self.bumps else 11, name=self._name
        )
        code = yield from self._client.insist_on_leader(self._topic, number, wanted, produced_code)
        if code is not ErrorCode.NONE:
            return False
        if not is_zombie:
            self._sequences[number] = sequence + len(values)
        return True

    def commit_offsets(
        self, identity: Identity, who: Committer, topic: str, offsets: Mapping[int, int]
    ) -> Steps[ErrorCode | None]:
        """Commits offsets by partition of a topic, as part of the transaction."""
        writer = {
            "transactional_id": self._name,
            "producer_id": identity.producer_id,
            "producer_epoch": identity.epoch,
            "group_id": who.group,
        }
        if not self.bumps:
            wanted = request(ApiKey.ADD_OFFSETS_TO_TXN, 3, **writer)
            code, _, _ = yield from self._client.insist(TRANSACTION, wanted, top_code)
            if code is not ErrorCode.NONE:
                return code
        rows = [
            {"partition_index": number, "committed_offset": offset, "committed_metadata": ""}
            for number, offset in offsets.items()
        ]
        wanted = request(
            ApiKey.TXN_OFFSET_COMMIT,
            5 if self.bumps else 3,
            generation_id=who.generation,
            member_id=who.member_id,
            group_instance_id=who.instance_id,
            topics=[{"name": topic, "partitions": rows}],
            **writer,
        )
        code, _, _ = yield from self._client.insist(
            GROUP, wanted, lambda found: worst(row.error_code for row in found.topics[0].partitions)
        )
        return code

    def end(self, identity: Identity, *, is_commit: bool) -> Steps[Ended]:
        """Ends the transaction."""
        wanted = self.end_request(identity, is_commit=is_commit)
        code, response, in_doubt = yield from self._client.insist(TRANSACTION, wanted, top_code)
        if code is not ErrorCode.NONE or response is None:
            return Ended(code, in_doubt, None)
        if not self.bumps:
            return Ended(code, in_doubt, identity)
        self._sequences.clear()
        successor = Identity(response.producer_id, response.producer_epoch)
        return Ended(code, in_doubt, successor)

    def end_request(self, identity: Identity, *, is_commit: bool) -> Entity:
        """The request that ends it."""
        return request(
            ApiKey.END_TXN,
            5 if self.bumps else 3,
            transactional_id=self._name,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=is_commit,
        )


def produce_request(
    topic: str, number: int, records: bytes, *, version: int, name: str | None
) -> Entity:
    """One batch for one partition, in a transaction or with `None` in none."""
    return request(
        ApiKey.PRODUCE,
        version,
        transactional_id=name,
        acks=-1,
        timeout=millis(2_000),
        topic_data=[{"name": topic, "partition_data": [{"index": number, "records": records}]}],
    )


def produced_code(response: Entity) -> ErrorCode:
    """What became of the batch."""
    return error_of(response.responses[0].partition_responses[0].error_code)
