"""Outputs keep their order, tokens are never used twice."""

from tidelog.model import TopicPartition
from tidelog.replication.messages import LogDirFailed
from tidelog.replication.outbox import Outbox


def test_order_and_tokens() -> None:
    """Taken once."""
    outbox = Outbox()
    outputs = [LogDirFailed(TopicPartition("orders", number), "full") for number in range(3)]
    for output in outputs:
        outbox.emit(output)
    assert len(outbox) == 3
    assert outbox.take() == outputs
    assert outbox.take() == []
    tokens = [outbox.new_token() for _ in range(3)]
    assert len(set(tokens)) == 3
