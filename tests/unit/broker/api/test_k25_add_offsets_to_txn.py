"""AddOffsetsToTxn: the partition of the group belongs to the transaction."""

import pytest

from tests.unit.broker.api.transaction_client import begin, one_node
from tests.unit.broker.api.wire_turns import versions
from tidelog.errors import ErrorCode
from tidelog.model import OFFSETS_TOPIC, TopicPartition
from tidelog.rsm.placement import partition_of
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of

VERSIONS = versions(ApiKey.ADD_OFFSETS_TO_TXN)


def ask(wire, version, producer):
    response = wire.call(ApiKey.ADD_OFFSETS_TO_TXN, version, group_id="g", **producer._asdict())
    return error_of(response.error_code)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_partition_of_the_group_is_added(version):
    node = one_node()
    wire = node.client()
    producer = begin(wire)
    # The first question makes the topic.
    assert ask(wire, version, producer) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    node.run_until(lambda: OFFSETS_TOPIC in node.broker.image.topics_by_name)
    assert ask(wire, version, producer) is ErrorCode.NONE
    ((_, found),) = node.broker.transactions.list_transactions() or ()
    assert found.partitions == {TopicPartition(OFFSETS_TOPIC, partition_of("g", 3))}
    code = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert ask(wire, version, producer._replace(producer_epoch=7)) is code


def test_a_transactional_id_has_a_name(wire):
    producer = begin(one_node().client())._replace(transactional_id="")
    assert ask(wire, 4, producer) is ErrorCode.INVALID_REQUEST
