"""A broker that coordinates one group, `billing`, which reads topic `orders` of two partitions."""

from typing import Any

from tests.unit.client.responses import offsets
from tests.unit.client.scripted_brokers import TOPIC_ID, ScriptedBrokers
from tidelog.client.core.values import EARLIEST
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import uuid_of

ASSIGNMENT = b"\0\1\0\0\0\1\0\6orders\0\0\0\1\0\0\0\1\xff\xff\xff\xff"
"""Partition 1."""


class ScriptedGroup:
    """What the broker answers; a test changes it."""

    def __init__(self) -> None:
        self.state, self.code = "Stable", ErrorCode.NONE
        self.group_type = "classic"
        # How often a question is answered by an error that passes, before it is answered.
        self.not_yet = 0
        self.committed = {0: 10, 1: 4}
        self.starts, self.ends = {0: 2, 1: 0}, {0: 10, 1: 9}
        self.brokers = ScriptedBrokers(
            {
                ApiKey.FIND_COORDINATOR: lambda _: {"coordinators": [self._place("billing")]},
                ApiKey.METADATA: self._metadata,
                ApiKey.LIST_GROUPS: lambda _: {"groups": [self._listed()]},
                ApiKey.DESCRIBE_GROUPS: lambda _: {"groups": [self._described()]},
                ApiKey.CONSUMER_GROUP_DESCRIBE: lambda _: {"groups": [self._consumers()]},
                ApiKey.OFFSET_FETCH: self._fetched,
                ApiKey.LIST_OFFSETS: self._offsets,
                ApiKey.OFFSET_COMMIT: self._commit,
                ApiKey.DELETE_GROUPS: lambda asked: {
                    "results": [{"group_id": "billing", "error_code": self._code()}]
                },
            }
        )

    def _code(self) -> ErrorCode:
        if self.not_yet:
            self.not_yet -= 1
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return self.code

    def _place(self, key: str) -> dict[str, Any]:
        return {"key": key, "node_id": 1, "host": "127.0.0.1", "port": self.brokers.port}

    def _metadata(self, asked: Any) -> dict[str, Any]:
        rows = [
            {
                "partition_index": number,
                "leader_id": 1,
                "leader_epoch": 0,
                "replica_nodes": [1],
                "isr_nodes": [1],
                "offline_replicas": [],
            }
            for number in self.ends
        ]
        unknown = [each.name for each in asked.topics or () if each.name != "orders"]
        topics = [
            {"error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "name": name, "topic_id": None}
            | {"partitions": []}
            for name in unknown
        ]
        topics.append({"name": "orders", "topic_id": uuid_of(TOPIC_ID), "partitions": rows})
        broker = {"node_id": 1, "host": "127.0.0.1", "port": self.brokers.port}
        return {"brokers": [broker], "cluster_id": "c", "controller_id": 1, "topics": topics}

    def _listed(self) -> dict[str, Any]:
        return {
            "group_id": "billing",
            "protocol_type": "consumer",
            "group_state": self.state,
            "group_type": self.group_type,
        }

    def _consumers(self) -> dict[str, Any]:
        assigned = [{"topic_id": uuid_of(TOPIC_ID), "topic_name": "orders", "partitions": [1]}]
        member = {
            "member_id": "m-1",
            "instance_id": "i",
            "rack_id": None,
            "member_epoch": 3,
            "client_id": "app",
            "client_host": "/10.0.0.1",
            "subscribed_topic_names": ["orders"],
            "subscribed_topic_regex": None,
            "assignment": {"topic_partitions": assigned},
            "target_assignment": {"topic_partitions": assigned},
            "member_type": 1,
        }
        return {
            "error_code": self._code(),
            "error_message": None,
            "group_id": "billing",
            "group_state": "Reconciling",
            "group_epoch": 3,
            "assignment_epoch": 3,
            "assignor_name": "uniform",
            "members": [member],
        }

    def _described(self) -> dict[str, Any]:
        member = {
            "member_id": "m-1",
            "group_instance_id": None,
            "client_id": "app",
            "client_host": "/10.0.0.1",
            "member_metadata": b"",
            "member_assignment": ASSIGNMENT,
        }
        return {
            "error_code": self._code(),
            "group_id": "billing",
            "group_state": self.state,
            "protocol_type": "consumer",
            "protocol_data": "range",
            "members": [member] if self.state == "Stable" else [],
            "authorized_operations": 0,
        }

    def _fetched(self, asked: Any) -> dict[str, Any]:
        rows = [
            {
                "partition_index": number,
                "committed_offset": offset,
                "committed_leader_epoch": -1,
                "metadata": "",
            }
            for number, offset in self.committed.items()
        ]
        found = {"topics": [{"name": "orders", "partitions": rows}]}
        groups = [{"group_id": each.group_id, **found} for each in asked.groups]
        return {"groups": groups}

    def _offsets(self, asked: Any) -> Any:
        found = {}
        for row in asked.topics[0].partitions:
            bound = self.starts if row.timestamp == EARLIEST else self.ends
            found[row.partition_index] = ErrorCode.NONE, bound[row.partition_index]
        return offsets("orders", found)

    def _commit(self, asked: Any) -> dict[str, Any]:
        code = self._code()
        rows = []
        for row in asked.topics[0].partitions:
            if code is ErrorCode.NONE:
                self.committed[row.partition_index] = row.committed_offset
            rows.append({"partition_index": row.partition_index, "error_code": code})
        return {"topics": [{"name": "orders", "partitions": rows}]}
