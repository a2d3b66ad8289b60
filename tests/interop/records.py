"""Records for foreign clients to read: produced by librdkafka, all of them acknowledged."""

from confluent_kafka import Producer

from tidelog.testing import LocalCluster

START_TIMEOUT_S = 120
SEND_TIMEOUT_S = 60
STOP_TIMEOUT_S = 60


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
