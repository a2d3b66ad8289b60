"""What is written first: into an empty log, into a whole one, into one that broke off."""

from dataclasses import replace

import pytest

from tests.unit.controller.harness import Stage, a_broker, an_image
from tests.unit.metadata.kafka_log import kafka_steps
from tidelog.config import ControllerConfig
from tidelog.controller.bootstrap import activation_records, bootstrap_file, first_records
from tidelog.kraft.snapshot_format import BOOTSTRAP_SNAPSHOT, encode_snapshot
from tidelog.metadata.image import EMPTY_IMAGE
from tidelog.metadata.record_codec import encode_record
from tidelog.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    FeatureLevelRecord,
)

CONFIG = ControllerConfig(min_insync_replicas=2)
LEVELS = {
    "metadata.version": 30,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "transaction.version": 2,
}
OURS = set(LEVELS)


def test_an_empty_log_is_bootstrapped_as_kafka_does() -> None:
    """Goal: Kafka's own first batch, without the features that are not served here."""
    kafka = [record for _, record in kafka_steps()[1].records][:9]
    expected = [
        record
        for record in kafka
        if not isinstance(record, FeatureLevelRecord) or record.name in OURS
    ]
    assert len(expected) == 8
    assert activation_records(EMPTY_IMAGE, CONFIG) == expected


@pytest.mark.parametrize(
    ("asked", "level"), [(27, 27), (31, 30)], ids=["of an older Kafka", "of a newer one"]
)
def test_levels_that_formatting_left_are_taken_over(asked: int, level: int) -> None:
    """Nodes of Kafka 4.1 end at level 30."""
    wanted = (("metadata.version", asked), ("group.version", 1), ("share.version", 0))
    levels = [FeatureLevelRecord(name=name, feature_level=number) for name, number in wanted]
    file = encode_snapshot(BOOTSTRAP_SNAPSHOT, 0, [encode_record(each) for each in levels])
    written = activation_records(EMPTY_IMAGE, CONFIG, first_records(file))
    found = {one.name: one.feature_level for one in written if isinstance(one, FeatureLevelRecord)}
    assert found == {"metadata.version": level, "group.version": 1}


def test_our_own_formatting_leaves_our_levels() -> None:
    assert first_records(bootstrap_file((), 0)).levels == LEVELS


def test_a_log_with_features_needs_nothing() -> None:
    """Goal: features and the min ISR are written once in a cluster's life."""
    assert activation_records(an_image(a_broker(1)), CONFIG) == []


def test_a_broken_off_transaction_is_aborted() -> None:
    """Goal: what a failed controller began is undone, and done again if it was the bootstrap."""
    image = replace(an_image(a_broker(1)), open_transaction=())
    abort = AbortTransactionRecord(reason="Controller failover")
    assert activation_records(image, CONFIG) == [abort]
    again = activation_records(replace(EMPTY_IMAGE, open_transaction=()), CONFIG)
    assert again[:2] == [abort, BeginTransactionRecord(name="Bootstrap records")]


def test_the_first_and_the_second_activation() -> None:
    """Goal: bootstrapped once; the cluster-wide min ISR comes from the file."""
    stage = Stage(config=replace(CONFIG, min_insync_replicas=3))
    stage.lead()
    image = stage.controller.image
    assert image.features == LEVELS
    assert image.broker_configs(None) == {"min.insync.replicas": "3"}
    first = stage.records()
    stage.lose()
    stage.lead(epoch=3)
    assert stage.records() == first
    assert sum(isinstance(record, ConfigRecord) for record in first) == 1
