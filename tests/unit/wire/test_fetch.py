"""Every recorded Fetch, of clients, followers and the quorum, survives the hand-packed codec."""

from tests.wire_corpus import Exchange, wire_corpus
from tidelog.wire import fetch
from tidelog.wire.api import ApiKey, parse_header


def recorded() -> list[Exchange]:
    return [each for each in wire_corpus() if each.api_key == ApiKey.FETCH]


def test_recorded_requests_come_back_byte_for_byte() -> None:
    for exchange in recorded():
        header, body = parse_header(exchange.request)
        request = fetch.parse_request(exchange.version, exchange.request, body)
        packed = fetch.pack_request(
            exchange.version, header.correlation_id, header.client_id, request
        )
        assert packed == len(exchange.request).to_bytes(4, "big") + exchange.request


def test_recorded_responses_come_back_byte_for_byte() -> None:
    for exchange in recorded():
        correlation_id, response = fetch.parse_response(exchange.version, exchange.response)
        packed = b"".join(fetch.pack_response(exchange.version, correlation_id, response))
        assert packed == len(exchange.response).to_bytes(4, "big") + exchange.response


def test_the_recording_has_every_kind_of_fetch() -> None:
    assert {each.version for each in recorded()} == {11, 12, 16, 18}
    answers = [
        answer
        for each in recorded()
        for answer in fetch.parse_response(each.version, each.response)[1].partitions
    ]
    assert any(answer.aborted for answer in answers)
    assert any(answer.current_leader for answer in answers)
    assert any(answer.records for answer in answers)
