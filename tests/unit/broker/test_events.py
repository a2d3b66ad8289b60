"""Goal: the node's events have the lines and records that logs and event files are read for."""

import pytest

from tidelog.broker.events import (
    AnswerIgnored,
    BatchesRefused,
    CallRefused,
    LogFailed,
    LoginFailed,
    MetadataFlushFailed,
    NodeStopped,
    OwnLoginRefused,
    PeerLostContact,
    PeerReached,
    PeerSuspected,
    RegistrationTimedOut,
    RequestMalformed,
    SharePartitionDropped,
    SharePartitionLoaded,
)
from tidelog.env.event import EventRecord, Kind, record_of
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition

ORDERS = TopicPartition("orders", 3)
LINES = {
    "node 2 on_suspected: suspected (connects refused)": PeerSuspected(node_id=2),
    "peer -2 on_answered: ignored (too short)": AnswerIgnored(peer_id=-2, reason="too short"),
    (
        "peer 2 on_answered: login_refused (no such user) listener=INTERNAL hint=compare "
        "`sasl.jaas.config` of this listener on both nodes; a user of SCRAM is in "
        "`tidelog users list`"
    ): OwnLoginRefused(peer_id=2, listener="INTERNAL", reason="no such user"),
    "connection 17 authenticate: failed (no such user) listener=SASL mechanism=PLAIN peer=::1": (
        LoginFailed(
            connection_id=17, reason="no such user", listener="SASL", mechanism="PLAIN", peer="::1"
        )
    ),
    "orders-3 on_read_state: loaded group_id=g leader_epoch=4 offset=5": SharePartitionLoaded(
        partition=ORDERS, group_id="g", leader_epoch=4, offset=5
    ),
    "orders-3 drop: dropped (fenced) group_id=g leader_epoch=4": SharePartitionDropped(
        partition=ORDERS, group_id="g", leader_epoch=4, reason="fenced"
    ),
    "broker on_response: refused (taken) code=DUPLICATE_BROKER_REGISTRATION": CallRefused(
        code=ErrorCode.DUPLICATE_BROKER_REGISTRATION, reason="taken"
    ),
    "broker maybe_give_up: gone (not registered, no controller answered)": RegistrationTimedOut(
        last_refusal=ErrorCode.NONE
    ),
    "broker maybe_give_up: gone (not registered, refused with BROKER_ID_NOT_REGISTERED)": (
        RegistrationTimedOut(last_refusal=ErrorCode.BROKER_ID_NOT_REGISTERED)
    ),
    "node on_closed: stopped broker_epoch=7": NodeStopped(broker_epoch=7),
    "disk on_flush_failed: stopping (full) what=a vote": MetadataFlushFailed(
        reason="full", what="a vote"
    ),
    "orders-3 on_log_dir_failed: stopping (full)": LogFailed(partition=ORDERS, reason="full"),
}


@pytest.mark.parametrize("line", LINES)
def test_the_line_of_an_event(line):
    assert LINES[line].text() == line


def test_event_files_keep_what_is_known_of_other_nodes():
    suspected = {"node": 2, "reason": "connects refused"}
    expected = EventRecord(Kind.SUSPECTED, None, None, None, suspected)
    assert record_of(PeerSuspected(node_id=2)) == expected
    for event in (PeerReached(node_id=2), PeerLostContact(node_id=2)):
        assert event.kind is not None
        assert record_of(event) == EventRecord(event.kind, None, None, None, {"node": 2})


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
