"""Options of the topic sink: what they mean, and what is refused before any broker is asked."""

import pytest

from tidelog.client.core.values import Address
from tidelog.errors import UsageError
from tidelog.pipeline.sink.options import parse_sink_options

SERVER = {"kafka.bootstrap.servers": "one:9092"}


def test_by_default_a_write_is_at_least_once():
    options = parse_sink_options({**SERVER, "topic": "orders"}, streaming=True)
    assert options.bootstrap == (Address("one", 9092),)
    assert options.topic == "orders"
    assert not options.exactly_once


def test_the_client_gets_its_own_options_in_lower_case():
    given = {**SERVER, "kafka.Linger.ms": "5", "kafka.ssl.ca.location": "Ca.pem"}
    options = parse_sink_options(given, streaming=False)
    assert options.client == {
        "bootstrap.servers": "one:9092",
        "linger.ms": "5",
        "ssl.ca.location": "Ca.pem",
    }
    assert options.topic is None


def test_names_of_the_sinks_own_options_have_no_case():
    given = {**SERVER, "DELIVERYguarantee": "Exactly-Once", "WriteID": "nightly"}
    options = parse_sink_options(given, streaming=False)
    assert options.exactly_once
    assert options.write_id == "nightly"


def test_options_of_spark_itself_are_ignored():
    given = {**SERVER, "checkpointLocation": "somewhere", "path": "", "queryName": "copy"}
    assert parse_sink_options(given, streaming=True).bootstrap


@pytest.mark.parametrize(
    ("given", "streaming", "message"),
    [
        ({}, True, "`kafka.bootstrap.servers` is missing"),
        ({**SERVER, "topics": "orders"}, True, "no option `topics`"),
        ({**SERVER, "kafka.acks": "1"}, True, "`kafka.acks` is set by the sink"),
        ({**SERVER, "kafka.transactional.id": "x"}, True, "`kafka.transactional.id` is set"),
        ({**SERVER, "deliveryGuarantee": "maybe"}, True, "`deliveryGuarantee` is `maybe`"),
        ({**SERVER, "deliveryGuarantee": "exactly-once"}, False, "needs a name"),
        ({**SERVER, "writeId": "x"}, False, "`writeId` is for"),
        (
            {**SERVER, "deliveryGuarantee": "exactly-once", "writeId": "x"},
            True,
            "`writeId` is for batch writes",
        ),
        ({"kafka.bootstrap.servers": "nowhere"}, True, "`nowhere`"),
    ],
)
def test_wrong_options_are_named(given, streaming, message):
    with pytest.raises(UsageError, match=message) as caught:
        parse_sink_options(given, streaming=streaming)
    assert caught.value.hint
