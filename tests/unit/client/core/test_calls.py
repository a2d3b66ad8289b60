"""Requests of every version that a broker may speak can be built, written and read back."""

from typing import Any

import pytest

from tidelog.client.admin import describe_topic_configs
from tidelog.client.core.calls import Call
from tidelog.client.core.partitions import list_offsets, metadata_request
from tidelog.model import TopicPartition
from tidelog.pipeline.topics.group_progress import commit_request, find_request
from tidelog.wire.api import ApiKey, parse_header
from tidelog.wire.codec import decode_request, request_class
from tidelog.wire.entities import field, make

_TP = TopicPartition("t", 3)


def decoded(call: Call[Any], version: int) -> Any:
    """What a broker reads of a call."""
    frame = memoryview(call.encode(version, 1, "client"))[4:]
    header, body = parse_header(frame)
    assert (header.api_key, header.api_version) == (call.key, version)
    return decode_request(header, frame, body)


@pytest.mark.parametrize(
    ("call", "versions"),
    [
        (metadata_request(["t", "u"]), range(1, 13)),
        (metadata_request(None), range(1, 13)),
        (list_offsets({_TP: (5, 1)}, read_committed=True), range(2, 8)),
        (describe_topic_configs(["t"], ["cleanup.policy"]), range(1, 5)),
        (find_request("g"), range(1, 5)),
        (commit_request("g", {_TP: 7}), range(2, 9)),
    ],
    ids=lambda value: value.key.name if isinstance(value, Call) else "",
)
def test_every_version_survives_the_wire(call: Call[Any], versions: range) -> None:
    for version in versions:
        assert decoded(call, version).__version__ == version
    assert call.newest == versions[-1]


def test_all_topics_are_another_question_than_none() -> None:
    assert field(decoded(metadata_request(None), 12), "topics", ()) is None
    assert field(decoded(metadata_request([]), 12), "topics", None) == ()


def test_partitions_stand_under_their_topics() -> None:
    offsets = {TopicPartition("u", 0): 5, _TP: 7, TopicPartition("t", 1): 6}
    request = decoded(commit_request("g", offsets), 8)
    assert [
        (topic.name, [(each.partition_index, each.committed_offset) for each in topic.partitions])
        for topic in request.topics
    ] == [("t", [(1, 6), (3, 7)]), ("u", [(0, 5)])]


def test_values_that_a_version_has_no_field_for_are_left_out() -> None:
    kind = request_class(ApiKey.FIND_COORDINATOR, 3)
    entity = make(kind, key="g", key_type=0, coordinator_keys=["g"])
    assert entity.key == "g"
    assert not hasattr(entity, "coordinator_keys")
