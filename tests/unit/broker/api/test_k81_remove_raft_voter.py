"""RemoveRaftVoter when no leader could be asked: the refusal is the answer."""

from tidelog.broker.api import k81_remove_raft_voter
from tidelog.controller.messages import Refused
from tidelog.errors import ErrorCode
from tidelog.kraft import codec as quorum_codec


def test_a_refusal_has_its_code() -> None:
    refused = Refused(ErrorCode.REQUEST_TIMED_OUT, "no active controller was found")
    entity = k81_remove_raft_voter.API.refuse(0, None, refused)
    assert int(entity.__api_key__) == 81
    assert quorum_codec.response_of(entity).error_code is ErrorCode.REQUEST_TIMED_OUT
