"""ApiVersions: the lists of both listeners, and common ground for any client."""

import pytest

from tests.unit.broker.api.wire_turns import versions
from tidelog.broker.api.catalogue import APIS
from tidelog.broker.api.declaration import Listener
from tidelog.broker.features import FEATURES
from tidelog.errors import ErrorCode
from tidelog.wire import codec
from tidelog.wire.api import ApiKey, pack_header
from tidelog.wire.values import error_of

VERSIONS = versions(ApiKey.API_VERSIONS)


def ask(wire, version, name="client", release="1.0"):
    return wire.call(
        ApiKey.API_VERSIONS, version, client_software_name=name, client_software_version=release
    )


def table(response):
    return {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}


@pytest.mark.parametrize("version", VERSIONS)
def test_each_listener_lists_what_it_serves(wire, controller_wire, version):
    response = ask(wire, version)
    assert error_of(response.error_code) is ErrorCode.NONE
    assert table(response) == {
        int(key): tuple(span) for key, span in APIS.advertised(Listener.BROKER).items()
    }
    response = ask(controller_wire, version)
    assert table(response) == {
        int(key): tuple(span) for key, span in APIS.advertised(Listener.CONTROLLER).items()
    }


def test_produce_is_listed_from_zero_for_librdkafka(wire):
    assert table(ask(wire, 0))[ApiKey.PRODUCE] == (0, 13)


@pytest.mark.parametrize("version", [5, 100, 32767])
def test_an_unknown_version_is_answered_in_version_zero(wire, version):
    header = pack_header(ApiKey.API_VERSIONS, version, 77, "future")
    body = header + b"what the future may hold"
    wire.send(len(body).to_bytes(4, "big") + body)
    (frame,) = wire.frames()
    correlation_id, response = codec.decode_response(ApiKey.API_VERSIONS, 0, frame)
    assert correlation_id == 77
    assert error_of(response.error_code) is ErrorCode.UNSUPPORTED_VERSION
    assert table(response) == {ApiKey.API_VERSIONS: (0, 4)}
    assert not wire.closed


@pytest.mark.parametrize("name", ["", "-x", "x-", "a b", "ünïcode", "x\n", "."])
def test_clients_must_name_themselves(wire, name):
    for response in (ask(wire, 3, name=name), ask(wire, 4, release=name)):
        assert error_of(response.error_code) is ErrorCode.INVALID_REQUEST
        assert response.api_keys == ()


@pytest.mark.parametrize("name", ["a", "librdkafka", "apache-kafka-java", "v1.2-rc.3"])
def test_names_that_are_fine(wire, name):
    assert error_of(ask(wire, 3, name=name, release=name).error_code) is ErrorCode.NONE


@pytest.mark.parametrize("version", [3, 4])
def test_features(node, wire, version):
    response = ask(wire, version)
    shown = {f.name: (f.min_version, f.max_version) for f in response.supported_features}
    hidden = {name for name, (low, _) in FEATURES.items() if low == 0}
    if version == 3:
        assert shown == {n: r for n, r in FEATURES.items() if n not in hidden}
    else:
        assert shown == dict(FEATURES)
    finalized = {f.name: f.max_version_level for f in response.finalized_features}
    assert finalized == {n: level for n, level in node.broker.image.features.items() if level > 0}
    assert finalized["metadata.version"] == 30
    assert response.finalized_features_epoch == node.broker.image.offset
