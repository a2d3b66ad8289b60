"""The quorum as the controller's log."""

import pytest

from tests.unit.broker.one_node import WALL_MS, OneNode
from tidelog.broker.metadata_log import MetadataLog
from tidelog.controller.messages import FeatureUpdate, UpdateFeatures, UpgradeType
from tidelog.env.instant import Instant
from tidelog.kraft.messages import NotLeader
from tidelog.metadata.record_codec import encode_record
from tidelog.metadata.records import NoOpRecord


def test_appends_go_to_the_end_with_the_time_of_the_input():
    node = OneNode()
    log = MetadataLog(node.broker.quorum)
    end = log.end_offset
    log.at(node.now, WALL_MS + 777)
    assert log.append([encode_record(NoOpRecord())] * 3) == end + 2
    assert log.end_offset == end + 3


def test_only_the_leader_appends():
    node = OneNode()
    log = MetadataLog(node.broker.quorum)
    log.at(node.now, WALL_MS)
    node.broker.quorum.resign(Instant(node.now))
    with pytest.raises(NotLeader):
        log.append([encode_record(NoOpRecord())])


def test_a_new_kraft_version_is_answered_when_it_is_committed():
    """Goal: no client learns of a level that a change of leaders may take back."""
    node = OneNode()
    quorum, controller = node.broker.quorum, node.broker.controller
    assert quorum.kraft_version == 0
    update = FeatureUpdate("kraft.version", 1, UpgradeType.UPGRADE)
    request = UpdateFeatures((update,), validate_only=False)
    controller.handle(request, "asked", Instant(node.now))
    assert quorum.kraft_version == 1
    appended = quorum.voter_sets[-1][0]
    assert quorum.high_watermark <= appended
    assert controller.take_outputs() == []
