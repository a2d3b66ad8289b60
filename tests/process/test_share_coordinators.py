"""Share groups through the deaths of their coordinators: a member goes on with its epoch and its
partitions, and what was written about a share partition is read from the next coordinator."""

from functools import partial
from typing import Any

import pytest

from tidelog.client.blocking import Connection
from tidelog.client.core.calls import Call
from tidelog.client.core.errors import Unreachable
from tidelog.client.core.values import Address
from tidelog.errors import ErrorCode
from tidelog.model import OFFSETS_TOPIC, SHARES_TOPIC, TopicId
from tidelog.rsm.placement import partition_of
from tidelog.shares.records import SharePartition
from tidelog.testing import LocalCluster
from tidelog.testing.waiting import wait_until
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make
from tidelog.wire.values import bytes_of, error_of

pytestmark = pytest.mark.process

PATIENCE_S = 60
COORDINATORS = 5
"""Partitions of both internal topics in the profile of tests."""
GROUP, TOPIC = "sharers", "orders"
RUN = {"first_offset": 3, "last_offset": 5, "delivery_state": 2, "delivery_count": 1}


class Client:
    """Asks every broker until the coordinator has answered."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster

    def ask(self, key: ApiKey, version: int, code_of: Any, **values: object) -> Any:
        def encode(version: int, correlation_id: int, client_id: str) -> bytes:
            entity = make(codec.request_class(key, version), **values)
            return codec.encode_request(entity, correlation_id, client_id)

        call = Call(key, version, encode, partial(codec.decode_response, key))

        def once() -> Any:
            for server in self.cluster.bootstrap_servers.split(","):
                address = Address.parse(server)
                assert address is not None
                try:
                    connection = Connection(address, "test", PATIENCE_S)
                    try:
                        answer = connection.call(call)
                    finally:
                        connection.close()
                except Unreachable:
                    continue
                if error_of(code_of(answer)) is ErrorCode.NONE:
                    return answer
            return None

        return wait_until(once, PATIENCE_S, f"answer to {key.name}")

    def beat(self, epoch: int, *topics: str) -> Any:
        return self.ask(
            ApiKey.SHARE_GROUP_HEARTBEAT,
            1,
            lambda answer: answer.error_code,
            group_id=GROUP,
            member_id="member",
            member_epoch=epoch,
            rack_id=None,
            subscribed_topic_names=list(topics) or None,
        )

    def state(self, key: ApiKey, version: int, topic_id: TopicId, **row: object) -> Any:
        answer = self.ask(
            key,
            version,
            lambda answer: answer.results[0].partitions[0].error_code,
            group_id=GROUP,
            topics=[{"topic_id": topic_id, "partitions": [{"partition": 0, **row}]}],
        )
        return answer.results[0].partitions[0]


def test_both_coordinators_die(tmp_path):
    # The member has one thread, which also asks share coordinators until there is one.
    config = {"group.share.session.timeout.ms": "60000"}
    with LocalCluster(brokers=3, data_dir=tmp_path / "cluster", config=config) as cluster:
        client = Client(cluster)
        cluster.create_topic(TOPIC, partitions=2, replication_factor=3)
        for key_type, key in ((0, GROUP), (2, f"{GROUP}:{'A' * 22}:0")):
            client.ask(
                ApiKey.FIND_COORDINATOR,
                6,
                lambda answer: answer.coordinators[0].error_code,
                key_type=key_type,
                coordinator_keys=[key],
            )
        first = client.beat(0, TOPIC)

        def assigned() -> Any:
            answer = client.beat(first.member_epoch)
            return answer if answer.assignment is not None else None

        answer = wait_until(assigned, PATIENCE_S, "partitions of the member")
        (topic,) = answer.assignment.topic_partitions
        assert topic.partitions == (0, 1)
        topic_id = TopicId(bytes_of(topic.topic_id))
        read, write = ApiKey.READ_SHARE_GROUP_STATE, ApiKey.WRITE_SHARE_GROUP_STATE
        begun = client.state(read, 0, topic_id, leader_epoch=7)
        assert (begun.start_offset, begun.state_batches) == (-1, ())
        client.state(
            write,
            1,
            topic_id,
            state_epoch=begun.state_epoch,
            leader_epoch=7,
            start_offset=2,
            delivery_complete_count=3,
            state_batches=[RUN],
        )
        key = SharePartition(GROUP, topic_id, 0).key
        dead = None
        for name, of_key in ((SHARES_TOPIC, key), (OFFSETS_TOPIC, GROUP)):
            if dead is not None:
                cluster.start_node(dead)
                cluster.wait_until_ready()
            dead = cluster.wait_for_leader(name, partition_of(of_key, COORDINATORS))
            cluster.kill(dead)
            found = client.state(read, 0, topic_id, leader_epoch=7)
            assert (found.start_offset, len(found.state_batches)) == (2, 1)
            assert client.beat(answer.member_epoch).member_epoch == answer.member_epoch
