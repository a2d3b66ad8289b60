"""Requests of producers and of transactions, and reads that see what they did."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.differential.drafts import Draft, ProducerActor
from tests.differential.group_steps import generation, group, member, member_id, offset_rows
from tests.differential.steps import Batch, Name
from tidelog.wire.api import ApiKey as K

LATEST: Final = -1
EARLIEST: Final = -2


def producer(draft: Draft) -> ProducerActor:
    return draft.prng.choice(draft.producers)


def transactional(draft: Draft) -> ProducerActor:
    return draft.prng.choice([one for one in draft.producers if one.name is not None])


def name_of(draft: Draft, one: ProducerActor) -> Any:
    return draft.good_or(Name(one.name or "tx0"), Name("tx9"), "")


def producer_id(draft: Draft, one: ProducerActor) -> Any:
    given = draft.ref(one.inits, "producer_id", otherwise=-1)
    return draft.good_or(given, 987_654, -1)


def epoch(draft: Draft, one: ProducerActor) -> Any:
    def known(plus: int) -> Any:
        return draft.ref(one.inits, "producer_epoch", otherwise=-1, plus=plus)

    return draft.good_or(known(0), known(0), known(1), known(-1), -1, 32_767)


def begin(draft: Draft, usual: str) -> None:
    """InitProducerId: a new one, or the next epoch of one."""
    one = producer(draft)
    again = bool(one.inits) and draft.prng.chance(1, 3)
    name = None if one.name is None else draft.good_or(Name(one.name), Name(one.name), "")
    step = draft.add(
        K.INIT_PRODUCER_ID,
        one.slot,
        transactional_id=name,
        transaction_timeout=draft.good_or(600_000, 0, -1, 10**9),
        producer_id=producer_id(draft, one) if again else -1,
        producer_epoch=epoch(draft, one) if again else -1,
    )
    one.inits.insert(0, step)
    one.sequences.clear()


def add_partitions(draft: Draft, usual: str) -> None:
    one = transactional(draft)
    topics = [{"name": draft.topic(), "partitions": draft.partitions(lambda index: index)}]
    name, given_id, given_epoch = name_of(draft, one), producer_id(draft, one), epoch(draft, one)
    version = draft.version(K.ADD_PARTITIONS_TO_TXN)
    draft.add(
        K.ADD_PARTITIONS_TO_TXN,
        one.slot,
        version,
        transactional_id=name,
        producer_id=given_id,
        producer_epoch=given_epoch,
        topics=topics,
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=given_id,
        v3_and_below_producer_epoch=given_epoch,
        v3_and_below_topics=topics,
        transactions=[
            {
                "transactional_id": name,
                "producer_id": given_id,
                "producer_epoch": given_epoch,
                "verify_only": draft.prng.chance(1, 2),
                "topics": topics,
            }
        ],
    )


def add_offsets(draft: Draft, usual: str) -> None:
    one = transactional(draft)
    draft.add(
        K.ADD_OFFSETS_TO_TXN,
        one.slot,
        transactional_id=name_of(draft, one),
        producer_id=producer_id(draft, one),
        producer_epoch=epoch(draft, one),
        group_id=group(draft, usual),
    )


def commit_offsets(draft: Draft, usual: str) -> None:
    one, reader, name = transactional(draft), member(draft), group(draft, usual)
    simple = draft.prng.chance(1, 2)
    draft.add(
        K.TXN_OFFSET_COMMIT,
        one.slot,
        transactional_id=name_of(draft, one),
        group_id=name,
        producer_id=producer_id(draft, one),
        producer_epoch=epoch(draft, one),
        generation_id=-1 if simple else generation(draft, reader, name),
        member_id="" if simple else member_id(draft, reader, name),
        group_instance_id=None,
        topics=offset_rows(draft),
    )


def end(draft: Draft, usual: str) -> None:
    one = transactional(draft)
    step = draft.add(
        K.END_TXN,
        one.slot,
        transactional_id=name_of(draft, one),
        producer_id=producer_id(draft, one),
        producer_epoch=epoch(draft, one),
        committed=draft.prng.chance(1, 2),
    )
    one.inits.insert(0, step)
    if draft.steps[step].version >= 5:
        one.sequences.clear()


def produce(draft: Draft, usual: str) -> None:
    one = producer(draft)
    topic, index = draft.topic(), draft.partition()
    place = (str(topic), index)
    expected, count = one.sequences.get(place, 0), draft.prng.between(1, 3)
    plain = draft.prng.chance(1, 8)
    batch = Batch(
        producer_id=-1 if plain else producer_id(draft, one),
        producer_epoch=-1 if plain else epoch(draft, one),
        base_sequence=-1
        if plain
        else draft.good_or(expected, max(0, expected - count), expected + 5, 0, -1, 2**31 - 1),
        count=count,
        transactional=not plain and draft.good_or(one.name is not None, one.name is None),
        damaged=draft.good_or(False, True),
    )
    one.sequences[place] = expected + (0 if plain else count)
    draft.add(
        K.PRODUCE,
        one.slot,
        draft.prng.between(3, draft.versions[K.PRODUCE].max_version),
        transactional_id=Name(one.name) if one.name and batch.transactional else None,
        # One that is refused has begun its transaction in Kafka.
        acks=draft.good_or(-1, 1) if batch.transactional else draft.good_or(-1, 1, 5),
        timeout=30_000,
        topic_data=[
            {
                "name": topic,
                "topic_id": draft.topic_id(topic),
                "partition_data": [{"index": index, "records": draft.good_or(batch, b"")}],
            }
        ],
    )


def write_markers(draft: Draft, usual: str) -> None:
    one = transactional(draft)
    draft.add(
        K.WRITE_TXN_MARKERS,
        draft.admin_slot,
        markers=[
            {
                "producer_id": producer_id(draft, one),
                "producer_epoch": epoch(draft, one),
                "transaction_result": draft.prng.chance(1, 2),
                "topics": [{"name": draft.topic(), "partition_indexes": [draft.partition()]}],
                "coordinator_epoch": draft.good_or(0, -1, 5),
                "transaction_version": draft.good_or(0, 2, 1),
            }
        ],
    )


def describe_transactions(draft: Draft, usual: str) -> None:
    draft.add(
        K.DESCRIBE_TRANSACTIONS,
        draft.admin_slot,
        transactional_ids=draft.good_or([name_of(draft, transactional(draft))], []),
    )


def list_transactions(draft: Draft, usual: str) -> None:
    one = transactional(draft)
    draft.add(
        K.LIST_TRANSACTIONS,
        draft.admin_slot,
        state_filters=draft.good_or([], ["Ongoing"], ["odd"], ["Empty", "CompleteCommit"]),
        producer_id_filters=draft.good_or([], [producer_id(draft, one)]),
        duration_filter=draft.good_or(-1, 0, 10**9),
        transactional_id_pattern=draft.good_or(None, ".*tx0", "[", ""),
    )


def describe_producers(draft: Draft, usual: str) -> None:
    topic = draft.topic()
    draft.add(
        K.DESCRIBE_PRODUCERS,
        draft.admin_slot,
        topics=[{"name": topic, "partition_indexes": draft.partitions(lambda index: index)}],
    )


def list_offsets(draft: Draft, usual: str) -> None:
    """Ends for readers of either isolation, and offsets by time."""
    topic = draft.topic()
    times = (LATEST, LATEST, EARLIEST, -3, -4, -5, -6, -7, 0, 1_700_000_000_001, 2**62)
    version = draft.version(K.LIST_OFFSETS)
    draft.add(
        K.LIST_OFFSETS,
        draft.admin_slot,
        version,
        replica_id=draft.good_or(-1, -2),
        isolation_level=draft.prng.below(2),
        topics=[
            {
                "name": topic,
                "partitions": draft.partitions(
                    lambda index: {
                        "partition_index": index,
                        "current_leader_epoch": draft.good_or(-1, 0, 9),
                        "timestamp": draft.prng.choice(times),
                    }
                ),
            }
        ],
        timeout=1000,
    )


def fetch(draft: Draft, usual: str) -> None:
    topic = draft.topic()
    draft.add(
        K.FETCH,
        draft.admin_slot,
        replica_id=-1,
        max_wait=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=draft.prng.below(2),
        session_id=0,
        session_epoch=draft.good_or(-1, 0, 5),
        rack_id="",
        forgotten_topics_data=[],
        topics=[
            {
                "topic": topic,
                "topic_id": draft.topic_id(topic),
                "partitions": [
                    {
                        "partition": draft.partition(),
                        "current_leader_epoch": draft.good_or(-1, 0, 9),
                        "fetch_offset": draft.good_or(0, 1, 3, 10**6, -1),
                        "partition_max_bytes": 1 << 20,
                    }
                ],
            }
        ],
    )


Draw = Callable[[Draft, str], None]
TRANSACTION_DRAWS: Final[Mapping[K, Draw]] = {
    K.INIT_PRODUCER_ID: begin,
    K.ADD_PARTITIONS_TO_TXN: add_partitions,
    K.ADD_OFFSETS_TO_TXN: add_offsets,
    K.TXN_OFFSET_COMMIT: commit_offsets,
    K.END_TXN: end,
    K.PRODUCE: produce,
    K.WRITE_TXN_MARKERS: write_markers,
    K.DESCRIBE_TRANSACTIONS: describe_transactions,
    K.LIST_TRANSACTIONS: list_transactions,
    K.DESCRIBE_PRODUCERS: describe_producers,
    K.LIST_OFFSETS: list_offsets,
    K.FETCH: fetch,
}
