"""Records that librdkafka produces, all of them acknowledged, and reads to the end."""

from confluent_kafka import Consumer, Producer, TopicPartition

from tidelog.testing import LocalCluster

START_TIMEOUT_S = 120
SEND_TIMEOUT_S = 60
STOP_TIMEOUT_S = 60
WAIT_S = 120


def produce(
    cluster: LocalCluster, topic: str, values: list[bytes], *, partitions: int, timestamp: int = 0
) -> None:
    """Sends the values to the partitions in turn, with keys and headers, and waits for the acks.

    `timestamp` is in ms; 0 is now.
    """
    failures: list[str] = []
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 2}
    )
    for index, value in enumerate(values):
        producer.produce(
            topic,
            value,
            key=b"k" + value,
            headers=[("index", str(index).encode()), ("nothing", None)],
            partition=index % partitions,
            timestamp=timestamp,
            on_delivery=lambda error, _: failures.append(str(error)) if error else None,
        )
        producer.poll(0)
    assert producer.flush(SEND_TIMEOUT_S) == 0, "records were neither acknowledged nor refused"
    assert failures == []


def committed_reader(servers: str, topic: str, partitions: int) -> Consumer:
    """A reader of committed records at the beginning of all partitions."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "checker",
            "isolation.level": "read_committed",
            "log_level": 2,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    return consumer


def values_of(servers: str, topic: str, partitions: int) -> list[int]:
    """All records of a topic that has numbers, partition by partition in order."""
    settings = {"bootstrap.servers": servers, "group.id": "reader", "enable.partition.eof": True}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found, ended = [], 0
    while ended < partitions:
        message = consumer.poll(WAIT_S)
        assert message is not None, "the reader waits in vain"
        if message.error():
            ended += 1
        else:
            found.append(int(message.value()))
    consumer.close()
    return found
