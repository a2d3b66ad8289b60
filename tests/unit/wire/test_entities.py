"""Entities of any version from one set of values, and back."""

import pytest

from tidelog.errors import ErrorCode
from tidelog.model import ZERO_UUID, Uuid
from tidelog.wire import codec
from tidelog.wire.api import ApiKey, RequestHeader
from tidelog.wire.entities import ArrayWriter, make, nested, plain
from tidelog.wire.values import error_of, to_millis

DISK = Uuid(b"d" * 16)
LISTENERS = [{"name": "CONTROLLER", "host": "h", "port": 9093}]


@pytest.mark.parametrize("version", [0, 1])
def test_plain_values_come_back_as_far_as_the_version_has_them(version: int) -> None:
    values = {
        "cluster_id": None,
        "timeout": 1234,
        "voter_id": 4,
        "voter_directory_id": DISK,
        "listeners": LISTENERS,
        "ack_when_committed": False,
    }
    entity = make(codec.request_class(ApiKey.ADD_RAFT_VOTER, version), **values, other=1)
    assert to_millis(entity.timeout) == 1234
    assert entity.voter_directory_id.bytes == DISK
    if version == 0:
        del values["ack_when_committed"]
    assert plain(entity) == values


def test_an_error_code_is_a_number_and_the_zero_uuid_is_bytes() -> None:
    kind = codec.response_class(ApiKey.VOTE, 2)
    entity = make(kind, error_code=ErrorCode.INVALID_REQUEST, topics=())
    assert error_of(entity.error_code) is ErrorCode.INVALID_REQUEST
    assert plain(entity)["error_code"] == ErrorCode.INVALID_REQUEST
    request = make(
        codec.request_class(ApiKey.REMOVE_RAFT_VOTER, 0),
        cluster_id="c",
        voter_id=1,
        voter_directory_id=ZERO_UUID,
    )
    assert request.voter_directory_id is None
    assert plain(request)["voter_directory_id"] == ZERO_UUID


def test_what_is_null_stays_null() -> None:
    kind = codec.request_class(ApiKey.METADATA, 12)
    values = {"topics": None, "allow_auto_topic_creation": False}
    entity = make(kind, **values, include_topic_authorized_operations=True)
    assert entity.topics is None
    assert plain(entity) == {**values, "include_topic_authorized_operations": True}


@pytest.mark.parametrize("version", [3, 4], ids=["before tagged fields", "with them"])
def test_an_encoded_array_is_the_same_on_the_wire(version: int) -> None:
    """Method: one answer with the items themselves, and one with their encoding."""
    answer_type = codec.response_class(ApiKey.DESCRIBE_CONFIGS, version)
    result_type = nested(answer_type, "results")
    config = {"name": "retention.ms", "value": None, "read_only": False, "config_source": 5}
    more = {"is_sensitive": False, "synonyms": (), "config_type": 5, "documentation": "Time."}
    items = [config | more, config | more | {"name": "segment.bytes", "value": "7"}]
    result = {"error_code": ErrorCode.NONE, "error_message": None, "resource_type": 2}
    header = RequestHeader(ApiKey.DESCRIBE_CONFIGS, version, 1, None)

    def encoding(configs: object) -> bytes:
        results = [result | {"resource_name": name, "configs": configs} for name in ("a", "b")]
        return codec.encode_response(header, make(answer_type, throttle_time=0, results=results))

    rows = ArrayWriter(result_type, "configs")
    assert encoding(rows.array()) == encoding([])
    for item in items:
        rows.add(**item)
    assert encoding(rows.array()) == encoding(items)
