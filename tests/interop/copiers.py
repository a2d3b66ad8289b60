"""Programs of Python clients that copy a topic in transactions, as `CopyInTransactions.java` does.

    python -m tests.interop.copiers confluent|aiokafka BOOTSTRAP NAME SOURCE COPY RECORDS

They print the sum of their places for each transaction, and end when that is `RECORDS`. Any error
ends them, and the caller begins them again.
"""

import asyncio
import sys
from typing import Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer, TopicPartition

PER_TRANSACTION: Final = 500
CALL_S: Final = 30.0


def copy_with_confluent(bootstrap: str, name: str, source: str, copy: str, wanted: int) -> None:
    """librdkafka."""
    servers = {"bootstrap.servers": bootstrap, "log_level": 2}
    consumer = Consumer(
        {
            **servers,
            "group.id": name,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6000,
        }
    )
    producer = Producer(
        {**servers, "transactional.id": name, "transaction.timeout.ms": 15_000, "linger.ms": 5}
    )
    producer.init_transactions(CALL_S)
    consumer.subscribe([source])
    done = 0
    while done < wanted:
        messages = [each for each in consumer.consume(PER_TRANSACTION, 1.0) if not each.error()]
        if messages:
            producer.begin_transaction()
            places: dict[int, int] = {}
            for each in messages:
                number, offset = each.partition(), each.offset()
                assert number is not None and offset is not None
                producer.produce(copy, each.value(), each.key(), partition=number)
                producer.poll(0)
                places[number] = offset + 1
            offsets = [TopicPartition(source, number, place) for number, place in places.items()]
            metadata = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction(offsets, metadata, CALL_S)
            producer.commit_transaction(CALL_S)
        positions = consumer.position(consumer.assignment())
        committed = consumer.committed(consumer.assignment(), CALL_S)
        done = sum(
            max(one.offset, other.offset, 0)
            for one, other in zip(positions, committed, strict=True)
        )
        print(done, flush=True)


async def copy_with_aiokafka(
    bootstrap: str, name: str, source: str, copy: str, wanted: int
) -> None:
    """aiokafka."""
    consumer = AIOKafkaConsumer(
        source,
        bootstrap_servers=bootstrap,
        group_id=name,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=6000,
        heartbeat_interval_ms=1000,
    )
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, transactional_id=name, transaction_timeout_ms=15_000
    )
    await consumer.start()
    await producer.start()
    done = 0
    while done < wanted:
        batches = await consumer.getmany(timeout_ms=1000, max_records=PER_TRANSACTION)
        if batches:
            async with producer.transaction():
                sent = []
                for place, messages in batches.items():
                    for each in messages:
                        sent.append(
                            await producer.send(
                                copy, each.value, each.key, partition=place.partition
                            )
                        )
                await asyncio.gather(*sent)
                places = {place: messages[-1].offset + 1 for place, messages in batches.items()}
                await producer.send_offsets_to_transaction(places, name)
        done = sum([await consumer.position(each) for each in consumer.assignment()])
        print(done, flush=True)
    await producer.stop()
    await consumer.stop()


def main() -> None:
    family, bootstrap, name, source, copy, wanted = sys.argv[1:]
    if family == "confluent":
        copy_with_confluent(bootstrap, name, source, copy, int(wanted))
    else:
        asyncio.run(copy_with_aiokafka(bootstrap, name, source, copy, int(wanted)))


if __name__ == "__main__":
    main()
