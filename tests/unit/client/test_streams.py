"""Goal: a connection on an event loop gives answers or `Unreachable`."""

import asyncio

import pytest

from tests.unit.client.scripted_brokers import ScriptedBrokers, ScriptedCluster, ScriptedPartition
from tidelog.client.core.errors import Unreachable
from tidelog.client.core.partitions import metadata_request, read_metadata
from tidelog.client.core.values import Address
from tidelog.client.streams import StreamConnection
from tidelog.model import TopicPartition


async def partitions_at(address: Address) -> list[int]:
    """The partitions of topic `t`, asked twice over one connection."""
    connection = await StreamConnection.open(address, "test")
    try:
        await connection.call(metadata_request(["t"]))
        return read_metadata(await connection.call(metadata_request(["t"]))).partitions_of("t")
    finally:
        connection.close()


def test_answers_come_back() -> None:
    with ScriptedCluster({TopicPartition("t", 0): ScriptedPartition([])}, nodes=1) as cluster:
        assert asyncio.run(partitions_at(cluster.addresses[0])) == [0]


def test_a_broker_that_hangs_up_or_is_not_there_is_unreachable() -> None:
    with ScriptedBrokers() as mute, pytest.raises(Unreachable, match="closed the connection"):
        asyncio.run(partitions_at(mute.addresses[0]))
    with pytest.raises(Unreachable, match="cannot be reached"):
        asyncio.run(partitions_at(mute.addresses[0]))
