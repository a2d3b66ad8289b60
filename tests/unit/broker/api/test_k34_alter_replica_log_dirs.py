"""AlterReplicaLogDirs: one answer for each replica, whatever became of the others."""

import pytest

from tests.unit.broker.api.wire_turns import versions
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of

KEY = ApiKey.ALTER_REPLICA_LOG_DIRS


@pytest.mark.parametrize("version", versions(KEY))
def test_each_replica_has_its_answer(node, wire, version):
    """Those of topic `t` are where the first path wants them; the second path leads nowhere."""
    topics = [{"name": "t", "partitions": (0, 7)}, {"name": "absent", "partitions": (0,)}]
    dirs = [
        {"path": node.disk.root, "topics": topics},
        {"path": "/nowhere", "topics": [{"name": "t", "partitions": (1,)}]},
    ]
    found = [
        (topic.topic_name, each.partition_index, error_of(each.error_code))
        for topic in wire.call(KEY, version, dirs=dirs).results
        for each in topic.partitions
    ]
    assert found == [
        ("t", 0, ErrorCode.NONE),
        ("t", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("absent", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 1, ErrorCode.LOG_DIR_NOT_FOUND),
    ]
