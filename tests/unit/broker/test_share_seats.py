"""Goal: the log of a share coordinator does not grow with what its share partitions have done."""

from tests.unit.broker.api.share_client import call, initialize, one_node
from tidelog.errors import ErrorCode
from tidelog.model import SHARES_TOPIC, TopicPartition
from tidelog.rsm.placement import partition_of
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of


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
