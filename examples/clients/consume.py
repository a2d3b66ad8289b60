"""Reads a topic from its beginning to its present end.

Use: python consume.py BOOTSTRAP_SERVERS TOPIC

The consumer assigns itself the partitions, so that it reads all of them, also beside other readers.
"""

import sys
from collections.abc import Iterator

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition


def consume(bootstrap_servers: str, topic: str) -> Iterator[bytes]:
    """The values of all records that are there now."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        unread = set(consumer.list_topics(topic).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in unread])
        while unread:
            for message in consumer.consume(500, timeout=1.0):
                if message.error() is None:
                    yield message.value()
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    unread.discard(message.partition())
                else:
                    raise KafkaException(message.error())
    finally:
        consumer.close()


if __name__ == "__main__":
    print(sum(1 for _ in consume(sys.argv[1], sys.argv[2])), "records read")
