"""An output waits for the election state behind it."""

import pytest

from tests.unit.kraft.solo import fetch
from tidelog.kraft.messages import SendRequest
from tidelog.kraft.outbox import Outbox
from tidelog.model import Endpoint


def request_to(peer_id: int) -> SendRequest:
    """A fetch."""
    return SendRequest(peer_id, fetch(), Endpoint("CONTROLLER", f"n{peer_id}", 9093))


def test_outputs_leave_in_order_when_their_state_is_durable() -> None:
    """The one in the middle holds up the last one, too."""
    outbox = Outbox()
    outputs = [request_to(peer_id) for peer_id in (2, 3, 4)]
    outbox.add(outputs[0])
    assert not outbox.is_sealed
    outbox.seal(0)
    outbox.add(outputs[1])
    outbox.seal(1)
    outbox.add(outputs[2])
    outbox.seal(1)
    assert outbox.is_sealed
    assert outbox.take(0) == outputs[:1]
    assert outbox.take(0) == []
    assert outbox.take(1) == outputs[1:]


def test_what_is_not_sealed_does_not_leave() -> None:
    """The state may still change while an input is handled."""
    outbox = Outbox()
    outbox.add(request_to(2))
    assert outbox.take(100) == []


def test_sequences_never_fall() -> None:
    """A later word cannot wait for less than an earlier one."""
    outbox = Outbox()
    outbox.add(request_to(2))
    outbox.seal(2)
    with pytest.raises(AssertionError, match="DurableBeforeSent"):
        outbox.seal(1)
