"""Denied answers: what the request says, and a code."""

from tidelog.broker.api.mirroring import SENTENCE, mirrored
from tidelog.errors import ErrorCode
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make
from tidelog.wire.values import error_of, millis

DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_an_answer_without_a_code_has_it_in_its_rows() -> None:
    partition = {"partition_index": 3, "committed_offset": 5, "committed_metadata": ""}
    request = make(
        codec.request_class(ApiKey.OFFSET_COMMIT, 2),
        group_id="g",
        generation_id_or_member_epoch=1,
        member_id="m",
        retention_time=millis(0),
        topics=[{"name": "t", "partitions": [partition]}],
    )
    answer = mirrored(codec.response_class(ApiKey.OFFSET_COMMIT, 2), request, DENIED)
    (row,) = answer.topics[0].partitions
    assert (answer.topics[0].name, row.partition_index) == ("t", 3)
    assert error_of(row.error_code) is DENIED


def test_an_answer_with_a_code_has_no_rows() -> None:
    members = [{"member_id": "m", "group_instance_id": None}]
    kind = codec.request_class(ApiKey.LEAVE_GROUP, 3)
    request = make(kind, group_id="g", members=members)
    answer = mirrored(codec.response_class(ApiKey.LEAVE_GROUP, 3), request, DENIED)
    assert (error_of(answer.error_code), answer.members) == (DENIED, ())


def test_a_name_or_a_number_is_a_row() -> None:
    kind = codec.response_class(ApiKey.DELETE_TOPICS, 5)
    row = mirrored(kind.__annotations__["responses"].__args__[0], "t", DENIED)
    assert (row.name, row.error_message, error_of(row.error_code)) == ("t", SENTENCE, DENIED)
