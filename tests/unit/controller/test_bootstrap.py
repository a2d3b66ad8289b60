"""What is written first: into an empty log, into a whole one, into one that broke off."""

from dataclasses import replace

from tests.unit.controller.harness import Stage, a_broker, an_image
from tests.unit.metadata.kafka_log import kafka_steps
from tidelog.config import ControllerConfig
from tidelog.controller.bootstrap import activation_records
from tidelog.metadata.image import EMPTY_IMAGE
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
