"""Share sessions: their epochs, their limit, and the connection that they end with."""

import pytest

from tidelog.errors import ErrorCode, ProtocolError
from tidelog.model import TopicId
from tidelog.sharing.sessions import FINAL_EPOCH, MAX_EPOCH, Member, SharedPartition, ShareSessions

A, B = Member("g", "a"), Member("g", "b")
PLACE = SharedPartition(TopicId(bytes(16)), 0)


def refusal(call, *args):
    with pytest.raises(ProtocolError) as caught:
        call(*args)
    return caught.value.code


def test_epochs_grow_by_one_and_begin_again():
    sessions = ShareSessions(5)
    session = sessions.begin(A, 1, [PLACE])
    assert sessions.resume(A, 1) is sessions.resume(A, 2) is session
    assert refusal(sessions.resume, A, 2) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    session.next_epoch = MAX_EPOCH
    assert sessions.resume(A, MAX_EPOCH).next_epoch == 1


def test_the_last_request_needs_a_session():
    sessions = ShareSessions(5)
    assert refusal(sessions.resume, A, FINAL_EPOCH) is ErrorCode.SHARE_SESSION_NOT_FOUND
    session = sessions.begin(A, 1, [])
    assert sessions.resume(A, FINAL_EPOCH) is session


def test_a_member_has_one_session():
    sessions = ShareSessions(1)
    first = sessions.begin(A, 1, [PLACE])
    assert sessions.begin(A, 2, []) is not first
    assert refusal(sessions.begin, B, 3, []) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert len(sessions) == 1
    sessions.check()


def test_sessions_are_found_by_their_connection():
    sessions = ShareSessions(5)
    sessions.begin(B, 1, [])
    sessions.begin(A, 1, [])
    assert sessions.on_connection(1) == [A, B]
    sessions.end(A)
    sessions.end(B)
    assert sessions.on_connection(1) == []
    assert sessions.end(A) is None
    sessions.check()
