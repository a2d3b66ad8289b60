"""Goal: versions are negotiated, answers belong to their calls, and bytes that no broker of ours
would send end the connection. Method: the exchange alone, fed by hand."""

import pytest

from tidelog.client.core.calls import Call, request
from tidelog.client.core.errors import Unreachable
from tidelog.client.core.exchange import MAX_ANSWER_BYTES, Exchange
from tidelog.client.core.partitions import metadata_request
from tidelog.client.core.values import Address
from tidelog.wire import codec
from tidelog.wire.api import ApiKey, RequestHeader, parse_header
from tidelog.wire.entities import make
from tidelog.wire.values import error, millis


def greeted(**newest: int) -> Exchange:
    """An exchange with a broker that serves these APIs from 1 on."""
    exchange = Exchange(Address("a", 1), "test")
    greeting = exchange.greeting()
    assert greeting is not None
    header, _ = parse_header(greeting[4:])
    assert (header.api_key, header.api_version) == (ApiKey.API_VERSIONS, 0)
    kind = codec.response_class(ApiKey.API_VERSIONS, 0)
    rows = tuple(
        {"api_key": ApiKey[name], "min_version": 1, "max_version": version}
        for name, version in newest.items()
    )
    feed(exchange, codec.encode_response(header, make(kind, error_code=error(0), api_keys=rows)))
    assert exchange.greeting() is None
    return exchange


def feed(exchange: Exchange, data: bytes, step_bytes: int = 3) -> list[object]:
    """What comes of bytes that arrive in small pieces."""
    answers = []
    while data:
        place = exchange.buffer()
        count = min(step_bytes, len(place), len(data))
        place[:count], data = data[:count], data[count:]
        frame = exchange.received(count)
        if frame is not None:
            answers.append(exchange.answer(frame))
    return answers


def sent(exchange: Exchange, call: Call[object]) -> RequestHeader:
    """The header of a call that was sent."""
    return parse_header(exchange.send(call)[4:])[0]


def metadata(header: RequestHeader, cluster_id: str) -> bytes:
    """An answer to a Metadata request."""
    kind = codec.response_class(ApiKey.METADATA, header.api_version)
    values = {"throttle_time": millis(0), "brokers": (), "controller_id": 1, "topics": ()}
    return codec.encode_response(header, make(kind, cluster_id=cluster_id, **values))


@pytest.mark.parametrize(("served", "used"), [(5, 5), (12, 12), (40, 12)])
def test_the_newest_version_that_both_sides_know_is_used(served: int, used: int) -> None:
    exchange = greeted(METADATA=served)
    assert exchange.serves(ApiKey.METADATA)
    assert sent(exchange, metadata_request(None)).api_version == used


def test_an_api_without_a_common_version_is_unreachable() -> None:
    """The client knows version 0 of UnregisterBroker only."""
    with pytest.raises(Unreachable, match="broker `a:1` does not serve UNREGISTER_BROKER"):
        greeted(UNREGISTER_BROKER=4).send(request(ApiKey.UNREGISTER_BROKER, broker_id=1))
    with pytest.raises(Unreachable, match="does not serve METADATA"):
        greeted().send(metadata_request(None))


def test_pipelined_answers_come_to_their_calls() -> None:
    exchange = greeted(METADATA=12)
    first, second = (sent(exchange, metadata_request([])) for _ in range(2))
    assert second.correlation_id == first.correlation_id + 1
    answers = metadata(first, "x") + metadata(second, "y")
    assert [found.cluster_id for found in feed(exchange, answers)] == ["x", "y"]


@pytest.mark.parametrize("length", [0, -1, MAX_ANSWER_BYTES + 1])
def test_a_length_that_cannot_be_ends_the_connection(length: int) -> None:
    exchange = greeted(METADATA=12)
    exchange.send(metadata_request(None))
    with pytest.raises(Unreachable, match=f"a frame of {length} bytes"):
        feed(exchange, length.to_bytes(4, "big", signed=True))


def test_the_end_of_the_stream_and_bad_frames_end_the_connection() -> None:
    exchange = greeted(METADATA=12)
    header = sent(exchange, metadata_request(None))
    with pytest.raises(Unreachable, match="broker `a:1` answered with a bad frame"):
        feed(exchange, b"\0\0\0\5" + header.correlation_id.to_bytes(4, "big") + b"\1")
    with pytest.raises(Unreachable, match="broker `a:1` closed the connection"):
        exchange.received(0)


def test_an_answer_to_another_request_ends_the_connection() -> None:
    exchange = greeted(METADATA=12)
    header = sent(exchange, metadata_request([]))
    with pytest.raises(Unreachable, match=f"answered request 77, not {header.correlation_id}"):
        feed(exchange, metadata(header._replace(correlation_id=77), "x"))
