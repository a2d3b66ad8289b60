"""Goal: the log of a share coordinator does not grow with what its share partitions have done."""

from tests.unit.broker.api.share_client import call, initialize, one_node
from tidelog.errors import ErrorCode
from tidelog.model import SHARES_TOPIC, TopicPartition
from tidelog.rsm.placement import partition_of
from tidelog.wire.api import ApiKey
from tidelog.wire.codec import encode_request, request_class
from tidelog.wire.entities import make
from tidelog.wire.values import error_of, millis, uuid_of


def test_what_is_not_needed_is_deleted():
    node = one_node(
        share_coordinator_snapshot_update_records_per_snapshot="2",
        share_coordinator_state_topic_prune_interval_ms="1000",
    )
    wire = node.client()
    initialize(wire, 0)
    row = {"partition": 0, "state_epoch": 1, "leader_epoch": 0, "delivery_complete_count": 0}
    for offset in range(10):
        rows = {**row, "start_offset": offset, "state_batches": []}
        found = call(wire, ApiKey.WRITE_SHARE_GROUP_STATE, 1, rows)
        assert error_of(found[0].error_code) is ErrorCode.NONE
    seats = [it for it in node.broker.shares.coordinators() if len(it.entries)]
    (state,) = [each for _, each in seats[0].entries.items()]
    number = partition_of(state.partition.key, 3)
    log = node.broker.replicas.partitions[TopicPartition(SHARES_TOPIC, number)].log
    assert log.log_end_offset == 11
    node.run_until(lambda: log.log_start_offset == state.snapshot_offset)
    assert state.snapshot_offset == 9
    read = call(wire, ApiKey.READ_SHARE_GROUP_STATE, 0, {"partition": 0, "leader_epoch": 0})
    assert read[0].start_offset == 9


def test_a_deleted_topic_is_noticed_though_another_one_comes_in_the_same_image():
    node = one_node(share_coordinator_state_topic_prune_interval_ms="3600000")
    initialize(node.client(), 0, 1)
    states = [each.entries for each in node.broker.shares.coordinators()]
    assert sum(map(len, states)) == 2
    name = {"name": "t", "topic_id": uuid_of(bytes(16))}
    deletion = request_class(ApiKey.DELETE_TOPICS, 6)
    creation = request_class(ApiKey.CREATE_TOPICS, 5)
    topic = {"name": "u", "num_partitions": 1, "replication_factor": 1}
    topic |= {"assignments": (), "configs": ()}
    requests = (
        make(deletion, topics=[name], timeout=millis(1000)),
        make(creation, topics=[topic], timeout=millis(1000), validate_only=False),
    )
    both = b"".join(encode_request(each, number, "") for number, each in enumerate(requests))
    before = node.broker.image
    node.client().send(both)
    node.settle()
    after = node.broker.image
    assert "t" not in after.topics_by_name
    assert len(after.topics_by_name) == len(before.topics_by_name)
    node.advance(10)
    assert [len(each.entries) for each in node.broker.shares.coordinators()] == [0, 0, 0]
