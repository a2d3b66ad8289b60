"""Produces numbered records and stops at the first that is not acknowledged.

Use: python produce.py BOOTSTRAP_SERVERS TOPIC COUNT
"""

import sys

from confluent_kafka import Producer


def produce(bootstrap_servers: str, topic: str, count: int) -> int:
    """Writes records with acks=all; returns how many are acknowledged."""
    acknowledged = 0

    def on_delivery(error, message):
        nonlocal acknowledged
        if error is not None:
            raise SystemExit(f"not acknowledged: {error}")
        acknowledged += 1

    producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all", "linger.ms": 5})
    for number in range(count):
        producer.produce(topic, key=str(number), value=f"record {number}", on_delivery=on_delivery)
        producer.poll(0)
    producer.flush()
    return acknowledged


if __name__ == "__main__":
    print(produce(sys.argv[1], sys.argv[2], int(sys.argv[3])), "records acknowledged")
