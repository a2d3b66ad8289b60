"""Requests of every version that a broker may speak can be built, written and read back."""

import pytest

from tidelog.model import TopicPartition
from tidelog.pipeline.cluster import requests
from tidelog.wire.api import ApiKey, parse_header
from tidelog.wire.codec import decode_request, encode_request
from tidelog.wire.entities import field

_TP = TopicPartition("t", 3)


@pytest.mark.parametrize(
    ("key", "versions", "build"),
    [
        (ApiKey.METADATA, range(1, 13), lambda v: requests.metadata_request(v, ["t", "u"])),
        (ApiKey.METADATA, range(1, 13), lambda v: requests.metadata_request(v, None)),
        (
            ApiKey.LIST_OFFSETS,
            range(2, 8),
            lambda v: requests.list_offsets_request(v, {_TP: (5, 1)}, read_committed=True),
        ),
        (ApiKey.DESCRIBE_CONFIGS, range(1, 5), lambda v: requests.cleanup_policy_request(v, ["t"])),
        (ApiKey.FIND_COORDINATOR, range(1, 5), lambda v: requests.find_group_request(v, "g")),
        (
            ApiKey.OFFSET_COMMIT,
            range(2, 9),
            lambda v: requests.offset_commit_request(v, "g", {_TP: 7}),
        ),
    ],
)
def test_every_version_survives_the_wire(key, versions, build):
    for version in versions:
        entity = build(version)
        frame = memoryview(encode_request(entity, 1, "client"))[4:]
        header, body = parse_header(frame)
        assert (header.api_key, header.api_version) == (key, version)
        assert decode_request(header, frame, body) == entity


def test_all_topics_are_another_question_than_none():
    assert field(requests.metadata_request(12, None), "topics", ()) is None
    assert field(requests.metadata_request(12, []), "topics", None) == ()


def test_partitions_stand_under_their_topics():
    offsets = {TopicPartition("u", 0): 5, _TP: 7, TopicPartition("t", 1): 6}
    request = requests.offset_commit_request(8, "g", offsets)
    assert [
        (topic.name, [(each.partition_index, each.committed_offset) for each in topic.partitions])
        for topic in request.topics
    ] == [("t", [(1, 6), (3, 7)]), ("u", [(0, 5)])]
