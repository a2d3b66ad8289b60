"""The lines of the events about clients' requests."""

from tidelog.broker.api.events import BatchesRefused, RequestMalformed
from tidelog.errors import ErrorCode


def test_a_malformed_request():
    event = RequestMalformed(connection_id=17, reason="no request header", peer="10.0.0.1")
    assert event.text() == "connection 17 on_frame: closed (no request header) peer=10.0.0.1"


def test_refused_batches():
    event = BatchesRefused(
        connection_id=17,
        error_code=ErrorCode.CORRUPT_MESSAGE,
        message="",
        partition="orders-3",
        batches=2,
        peer="10.0.0.1",
    )
    assert event.text() == (
        "connection 17 on_reply: refused (CORRUPT_MESSAGE: no record batch) "
        "partition=orders-3 batches=2 peer=10.0.0.1"
    )
