"""A transactional producer as a process of its own, which begins a transaction and waits.

    python -m tests.process.abandoned_transaction BOOTSTRAP TOPIC TIMEOUT_MS

It writes one record into the first partition, prints a line when the record is acknowledged, and
then holds the transaction open until it is killed.
"""

import sys

from confluent_kafka import Producer

PATIENCE_S = 60


def main() -> None:
    bootstrap, topic, timeout_ms = sys.argv[1:]
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": "abandoned",
            "transaction.timeout.ms": int(timeout_ms),
            "log_level": 2,
        }
    )
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, "abandoned", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    print("begun", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
