"""AlterPartition between brokers and controller, as it is served and as it is sent."""

import pytest

from tests.unit.broker.api.wire_turns import answered, request, sent, versions
from tidelog.broker.api import k56_alter_partition as module
from tidelog.controller.messages import (
    AlterPartition,
    AlterPartitionResult,
    IsrMember,
    IsrProposal,
    IsrResult,
    Refused,
)
from tidelog.errors import ErrorCode
from tidelog.model import TopicId
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.values import uuid_of

KEY = ApiKey.ALTER_PARTITION
A, B = TopicId(b"a" * 16), TopicId(b"b" * 16)
MESSAGE = AlterPartition(
    1,
    77,
    (
        IsrProposal(A, 0, 3, 9, (IsrMember(1, 77), IsrMember(2, 80))),
        IsrProposal(A, 4, 5, 6, (IsrMember(1, 77),), recovering=True),
        IsrProposal(B, 1, 0, 0, ()),
    ),
)


def test_proposals_there():
    assert module.API.message_of(sent(module.API.request(MESSAGE))) == MESSAGE


def test_version_two_has_members_without_epochs():
    partition = {
        "partition_index": 4,
        "leader_epoch": 5,
        "new_isr": (1, 2),
        "leader_recovery_state": 1,
        "partition_epoch": 6,
    }
    entity = request(
        KEY,
        2,
        broker_id=1,
        broker_epoch=77,
        topics=({"topic_id": uuid_of(A), "partitions": (partition,)},),
    )
    members = (IsrMember(1, -1), IsrMember(2, -1))
    assert module.API.message_of(entity) == AlterPartition(
        1, 77, (IsrProposal(A, 4, 5, 6, members, recovering=True),)
    )


@pytest.mark.parametrize("version", versions(KEY))
def test_results_back(broker, version):
    result = AlterPartitionResult(
        (
            IsrResult(A, 0, ErrorCode.NONE, 1, 3, (1, 2), False, 10),
            IsrResult(B, 1, ErrorCode.INELIGIBLE_REPLICA),
            IsrResult(A, 4, ErrorCode.NONE, 1, 5, (1,), True, 7),
        )
    )
    entity = answered(KEY, version, module.API.answer(broker, version, None, result))
    grouped = module.API.response_of(entity)
    assert grouped == AlterPartitionResult(
        (result.results[0], result.results[2], result.results[1])
    )


@pytest.mark.parametrize("version", versions(KEY))
@pytest.mark.parametrize("code", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.NOT_CONTROLLER])
def test_a_refusal_back(broker, version, code):
    entity = module.API.answer(broker, version, None, Refused(code, "words"))
    back = module.API.response_of(answered(KEY, version, entity))
    assert back == Refused(code, code.name)


def test_a_stranger_is_refused(controller_wire):
    frame = controller_wire.ask(KEY, module.API.request(MESSAGE))
    _, entity = codec.decode_response(KEY, module.API.sent_version, frame)
    assert module.API.response_of(entity).error_code is ErrorCode.STALE_BROKER_EPOCH
