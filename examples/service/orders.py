"""A service that accepts orders and answers only when Kafka has them."""

import json
from typing import Any

from confluent_kafka import Producer


class OrderRefused(Exception):
    """The order is not acknowledged; the customer should try again."""


class OrderService:
    """Writes each order to a topic with acks=all."""

    def __init__(self, bootstrap_servers: str, topic: str, patience_s: float = 10.0) -> None:
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0,
                "delivery.timeout.ms": int(patience_s * 1000),
                "log_level": 2,
            }
        )

    def place(self, order_id: str, order: dict[str, Any]) -> int:
        """Stores an order and returns its offset. Raises `OrderRefused` without an ack."""
        outcome: list[Any] = []
        self._producer.produce(
            self._topic,
            key=order_id,
            value=json.dumps(order),
            on_delivery=lambda error, message: outcome.append(error or message.offset()),
        )
        self._producer.flush()
        (found,) = outcome
        if not isinstance(found, int):
            raise OrderRefused(f"order `{order_id}` is not acknowledged: {found}")
        return found
