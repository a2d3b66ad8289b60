"""The feature levels that this software can run."""

from dataclasses import replace

from tests.unit.broker.one_node import SETTINGS, OneNode
from tidelog.broker.features import FEATURES, METADATA_VERSION, has_consumer_groups, version_for
from tidelog.config import parse_node_config
from tidelog.controller.bootstrap import activation_records
from tidelog.metadata.image import EMPTY_IMAGE


def test_ranges_are_ranges():
    for name, (low, high) in FEATURES.items():
        assert 0 <= low <= high, name


def test_metadata_version_is_always_named():
    """A registration without it is refused (KIP-778)."""
    assert FEATURES["metadata.version"] == (7, METADATA_VERSION)


def test_a_new_cluster_finalises_only_levels_that_this_software_runs():
    config = parse_node_config(SETTINGS).controller
    levels = {
        record.name: record.feature_level
        for record in activation_records(EMPTY_IMAGE, config)
        if type(record).__name__ == "FeatureLevelRecord"
    }
    assert levels["metadata.version"] == METADATA_VERSION
    for name, level in levels.items():
        low, high = FEATURES[name]
        assert low <= level <= high, name


def test_an_older_broker_gets_the_version_before():
    node = OneNode()
    node.add_broker(2)
    peer = node.broker.image.brokers[2]
    older = replace(peer, features={**peer.features, "metadata.version": (7, 25)})
    assert [version_for(each, 18, 26) for each in (None, peer, older)] == [18, 18, 17]
    newer = replace(peer, features={**peer.features, "metadata.version": (7, 26)})
    assert version_for(newer, 18, 26) == 18


def test_a_node_that_knows_no_levels_refuses_no_client():
    """Its metadata is on the way; what it refused would be given up by clients."""
    assert has_consumer_groups({})
    assert not has_consumer_groups({"metadata.version": 30})
    assert has_consumer_groups({"metadata.version": 30, "group.version": 1})
