"""AssignReplicasToDirs: where replicas are, there and back."""

from tests.unit.broker.api.wire_turns import answered, sent
from tidelog.broker.api import k73_assign_replicas_to_dirs as module
from tidelog.controller.messages import (
    AssignedReplica,
    AssignReplicas,
    AssignReplicasResult,
    Refused,
    ReplicaDirectory,
)
from tidelog.errors import ErrorCode
from tidelog.model import LOST_DIRECTORY, TopicId, Uuid
from tidelog.wire import codec
from tidelog.wire.api import ApiKey

KEY = ApiKey.ASSIGN_REPLICAS_TO_DIRS
TOPIC, OTHER = TopicId(b"t" * 16), TopicId(b"o" * 16)
HOME = Uuid(b"d" * 16)
MESSAGE = AssignReplicas(
    2,
    77,
    (
        ReplicaDirectory(TOPIC, 0, LOST_DIRECTORY),
        ReplicaDirectory(TOPIC, 3, LOST_DIRECTORY),
        ReplicaDirectory(OTHER, 1, HOME),
    ),
)


def test_there_and_back(broker):
    assert module.API.message_of(sent(module.API.request(MESSAGE))) == MESSAGE
    result = AssignReplicasResult(
        tuple(AssignedReplica(*item, ErrorCode.UNKNOWN_TOPIC_ID) for item in MESSAGE.assignments)
    )
    entity = answered(KEY, 0, module.API.answer(broker, 0, None, result))
    assert module.API.response_of(entity) == result
    refused = Refused(ErrorCode.STALE_BROKER_EPOCH, "stale")
    entity = answered(KEY, 0, module.API.answer(broker, 0, None, refused))
    assert module.API.response_of(entity).error_code is ErrorCode.STALE_BROKER_EPOCH


def test_end_to_end(node, controller_wire):
    epoch = node.add_broker(2)
    message = AssignReplicas(2, epoch, MESSAGE.assignments)
    _, entity = codec.decode_response(KEY, 0, controller_wire.ask(KEY, module.API.request(message)))
    answer = module.API.response_of(entity)
    assert {item.error_code for item in answer.results} == {ErrorCode.UNKNOWN_TOPIC_ID}
