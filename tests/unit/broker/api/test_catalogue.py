"""The list of a node's APIs, as the reference pages show it."""

import pytest

from tidelog.broker.api.catalogue import APIS
from tidelog.broker.api.declaration import (
    BROKERS,
    EnvelopeApi,
    HotApi,
    Listener,
    LocalApi,
    VersionRange,
)
from tidelog.wire.api import ApiKey


def test_every_declaration_has_the_row_of_a_table():
    rows = {
        (api.name, api.key.value): (
            tuple(api.versions),
            [listener.value for listener in api.listeners],
            api.answered_by,
            [" or ".join(map(str, check.rights)) for check in api.requires if check.rights],
        )
        for api in APIS
    }
    assert rows["CreateTopics", 19] == (
        (2, 7),
        ["broker", "controller"],
        "the active controller",
        ["CREATE CLUSTER or CREATE TOPIC", "DESCRIBE_CONFIGS TOPIC (configs in the answer)"],
    )
    assert rows["Vote", 52][3] == ["CLUSTER_ACTION CLUSTER"]
    assert rows["ListOffsets", 2][2] == "this node"
    assert rows["AddRaftVoter", 80][2] == "the quorum's leader"


def test_an_api_that_does_not_say_what_it_requires_does_not_start():
    """Goal: to forget it is an error of the import; `NOTHING` is said."""
    with pytest.raises(TypeError, match="requires"):
        LocalApi(
            key=ApiKey.HEARTBEAT,
            doc="Heartbeat (12)",
            listeners=BROKERS,
            versions=VersionRange(0, 4),
            handle=lambda *_: None,
        )


def test_every_api_but_hello_and_login_needs_a_right():
    """A token may be renewed and ended by its owner and its renewers, whom its record names."""
    names = [api.name for api in APIS if not api.requires]
    by_record = ["RenewDelegationToken", "ExpireDelegationToken"]
    assert names == ["SaslHandshake", "ApiVersions", "SaslAuthenticate", *by_record]


def test_which_apis_are_parsed_by_hand_and_which_is_an_envelope():
    by_hand = [api.name for api in APIS if isinstance(api, HotApi)]
    assert by_hand == ["Produce", "Fetch", "SaslHandshake", "SaslAuthenticate"]
    assert [api.name for api in APIS if isinstance(api, EnvelopeApi)] == ["Envelope"]


def test_produce_is_listed_from_zero_and_served_from_three():
    produce = APIS.table(Listener.BROKER)[ApiKey.PRODUCE]
    assert produce is not None
    assert (produce.advertised, produce.versions) == ((0, 13), (3, 13))
    assert APIS.advertised(Listener.BROKER)[ApiKey.PRODUCE] == (0, 13)
