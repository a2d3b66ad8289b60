"""Changes of the voter set on the wire: there and back, in every version."""

import pytest

from tidelog.errors import ErrorCode
from tidelog.kraft import voter_codec
from tidelog.kraft.messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    ReplicaKey,
    SupportRequest,
    UpdateVoterRequest,
    Voter,
    VoterChangeResponse,
)
from tidelog.model import Endpoint, Uuid
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make, nested
from tidelog.wire.values import error, millis

VOTER = Voter(4, Uuid(b"d" * 16), (Endpoint("CONTROLLER", "h", 65_535),), (0, 1))


@pytest.mark.parametrize(
    "request_",
    [
        AddVoterRequest("c", VOTER, True, 1234),
        AddVoterRequest(None, VOTER, False, 0),
        RemoveVoterRequest("c", ReplicaKey(4, VOTER.directory_id)),
        UpdateVoterRequest("c", 7, VOTER),
    ],
)
def test_a_request_comes_back_as_it_went(request_: object) -> None:
    entity = voter_codec.request_to_entity(request_)  # type: ignore[arg-type]
    assert voter_codec.request_of(entity) == request_


@pytest.mark.parametrize("key", [80, 81, 82])
def test_an_answer_comes_back_as_far_as_its_version_has_it(key: int) -> None:
    sent = VoterChangeResponse(ErrorCode.VOTER_NOT_FOUND, "no", 3, 9, Endpoint("", "h", 1))
    received = voter_codec.response_of(voter_codec.response_to_entity(key, sent, 0))
    assert received.error_code is ErrorCode.VOTER_NOT_FOUND
    if key == ApiKey.UPDATE_RAFT_VOTER:
        assert (received.leader_id, received.leader_epoch) == (3, 9)
    else:
        assert received.message == "no"


def test_support_is_read_from_the_features_of_apiversions() -> None:
    entity = voter_codec.request_to_entity(SupportRequest(ReplicaKey(4)))
    assert int(entity.__api_key__) == ApiKey.API_VERSIONS
    kind = codec.response_class(18, 4)
    feature = nested(kind, "supported_features")

    def answer(*features: object) -> object:
        return make(
            kind,
            error_code=error(0),
            api_keys=(),
            throttle_time=millis(0),
            supported_features=features,
            finalized_features=(),
        )

    kraft = make(feature, name="kraft.version", min_version=0, max_version=1)
    assert voter_codec.support_of(answer(kraft)).kraft_versions == (0, 1)
    assert voter_codec.support_of(answer()).kraft_versions is None
