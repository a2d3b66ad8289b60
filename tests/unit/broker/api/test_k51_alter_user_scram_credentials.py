"""AlterUserScramCredentials: from the wire to the log, and librdkafka's zero behind the body."""

from tests.unit.broker.logged_in import add_user
from tests.unit.broker.one_node import OneNode
from tidelog.errors import ErrorCode
from tidelog.model import Mechanism
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make
from tidelog.wire.values import error_of

KEY = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
REQUEST = codec.request_class(KEY, 0)


def deletion(name: str):
    """Of the credential for SCRAM-SHA-256."""
    return {"name": name, "mechanism": 1}


def test_a_user_comes_and_goes():
    node = OneNode()
    add_user(node, "bob", "p", Mechanism.SCRAM_SHA_256)
    assert node.broker.image.scram_credential("bob", 1) is not None
    gone = (deletion("bob"), deletion("mallory"))
    answer = node.client().call(KEY, 0, deletions=gone, upsertions=())
    assert [(row.user, error_of(row.error_code)) for row in answer.results] == [
        ("bob", ErrorCode.NONE),
        ("mallory", ErrorCode.RESOURCE_NOT_FOUND),
    ]
    assert node.broker.image.scram_credential("bob", 1) is None


def test_a_byte_behind_the_body_means_nothing():
    node = OneNode()
    wire = node.client()
    framed = codec.encode_request(make(REQUEST, deletions=(deletion("x"),), upsertions=()), 1, "c")
    wire.send(len(framed[3:]).to_bytes(4, "big") + framed[4:] + b"\0")
    node.settle()
    (frame,) = wire.frames()
    _, answer = codec.decode_response(KEY, 0, frame)
    assert error_of(answer.results[0].error_code) is ErrorCode.RESOURCE_NOT_FOUND


def test_without_a_controller_every_user_has_the_code():
    node = OneNode(alone=False, controller_quorum_voters="1@host1:9093,2@host2:9093")
    answer = node.client("CONTROLLER").call(KEY, 0, deletions=(deletion("a"),), upsertions=())
    assert error_of(answer.results[0].error_code) is ErrorCode.NOT_CONTROLLER
