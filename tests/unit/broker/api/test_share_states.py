"""The APIs of share coordinators: what each version says, and what a client gets that is wrong."""

import pytest

from tests.unit.broker.api.share_client import call, initialize, one_node
from tests.unit.broker.api.wire_turns import versions
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of, millis

WRITE, READ = ApiKey.WRITE_SHARE_GROUP_STATE, ApiKey.READ_SHARE_GROUP_STATE
SUMMARY = ApiKey.READ_SHARE_GROUP_STATE_SUMMARY
RUN = {"first_offset": 5, "last_offset": 7, "delivery_state": 2, "delivery_count": 1}


def written(version, number=0, **values):
    row = {"partition": number, "state_epoch": 1, "leader_epoch": 0, "start_offset": 5, **values}
    row.setdefault("state_batches", [RUN])
    return row if version == 0 else {"delivery_complete_count": 3, **row}


@pytest.mark.parametrize("version", versions(WRITE))
def test_what_is_written_is_read(version):
    wire = one_node().client()
    initialize(wire, 0, 1)
    found = call(wire, WRITE, version, written(version, 0), written(version, 1))
    assert {error_of(each.error_code) for each in found.values()} == {ErrorCode.NONE}
    read = call(wire, READ, 0, {"partition": 0, "leader_epoch": 1})[0]
    assert (read.state_epoch, read.start_offset) == (1, 5)
    assert [(it.first_offset, it.last_offset) for it in read.state_batches] == [(5, 7)]
    summary = call(wire, SUMMARY, 1, {"partition": 0, "leader_epoch": -1})[0]
    assert (summary.state_epoch, summary.leader_epoch, summary.start_offset) == (1, 1, 5)
    assert summary.delivery_complete_count == (3 if version else -1)


@pytest.mark.parametrize("version", versions(SUMMARY))
def test_what_is_not_known_has_no_start(version):
    wire = one_node().client()
    row = call(wire, SUMMARY, version, {"partition": 1, "leader_epoch": -1})[1]
    assert error_of(row.error_code) is ErrorCode.NONE
    assert (row.state_epoch, row.leader_epoch, row.start_offset) == (0, 0, -1)


def test_a_deleted_share_partition_is_gone():
    wire = one_node().client()
    initialize(wire, 0)
    for _ in range(2):
        row = call(wire, ApiKey.DELETE_SHARE_GROUP_STATE, 0, {"partition": 0})[0]
        assert error_of(row.error_code) is ErrorCode.NONE
    row = call(wire, READ, 0, {"partition": 0, "leader_epoch": 1})[0]
    assert error_of(row.error_code) is ErrorCode.INVALID_REQUEST
    assert "not initialised" in row.error_message


def test_each_partition_has_its_own_error():
    wire = one_node().client()
    initialize(wire, 0)
    rows = [written(1, 0), written(1, 1), written(1, 0x7FFFFFFF), written(1, -1)]
    found = call(wire, WRITE, 1, *rows)
    codes = [error_of(found[each["partition"]].error_code) for each in rows]
    assert codes == [ErrorCode.NONE, *[ErrorCode.INVALID_REQUEST] * 3]
    new = [{"partition": 2, "state_epoch": 0, "start_offset": 0}]
    row = call(wire, ApiKey.INITIALIZE_SHARE_GROUP_STATE, 0, *new)[2]
    assert error_of(row.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_request_without_a_group_is_about_nothing():
    wire = one_node().client()
    assert call(wire, READ, 0, {"partition": 0, "leader_epoch": 1}, group_id="") == {}


def test_a_deleted_topic_is_forgotten():
    node = one_node()
    wire = node.client()
    initialize(wire, 0, 1)

    def known():
        return sum(len(each.entries) for each in node.broker.shares.coordinators())

    assert known() == 2
    wire.call(ApiKey.DELETE_TOPICS, 3, topic_names=("t",), timeout=millis(1000))
    node.run_until(lambda: known() == 0)
