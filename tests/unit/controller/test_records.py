"""Every form is a record that the log can carry and that says what was meant."""

from typing import Any

import pytest

from tests.unit.controller.harness import FEATURES, a_broker, after, an_image, topic_id_of
from tidelog.controller import records
from tidelog.controller.elections import PartitionChange
from tidelog.controller.messages import RegisterBroker
from tidelog.metadata.image import ConfigResource, PartitionImage
from tidelog.metadata.image_records import endpoint_entries, feature_entries, partition_record
from tidelog.metadata.record_codec import decode_record, encode_record
from tidelog.metadata.records import (
    FENCE,
    LEADER_UNCHANGED,
    RECOVERED,
    RECOVERING,
    RECOVERY_UNCHANGED,
    UNFENCE,
    ClearElrRecord,
    MetadataRecord,
    ProducerIdsRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from tidelog.model import Endpoint, Uuid

ORDERS = topic_id_of("orders")
BROKER = a_broker(1, rack="r")
REGISTRATION = RegisterBroker(
    broker_id=1,
    cluster_id="c",
    incarnation_id=Uuid(b"i" * 16),
    endpoints=(Endpoint("SECURE", "h", 9093, security_protocol=1),),
    rack="r",
    features=FEATURES,
    log_dirs=BROKER.log_dirs,
)
PARTITION = PartitionImage((1, 2), (1,), 1, 0, 0, directories=(Uuid(b"d" * 16), Uuid(b"e" * 16)))


@pytest.mark.parametrize(
    "record",
    [
        TopicRecord(name="orders", topic_id=ORDERS),
        RemoveTopicRecord(topic_id=ORDERS),
        ClearElrRecord(topic_name=""),
        UnregisterBrokerRecord(broker_id=1, broker_epoch=7),
        ProducerIdsRecord(broker_id=1, broker_epoch=7, next_producer_id=1000),
        RegisterControllerRecord(
            controller_id=5,
            incarnation_id=Uuid(b"x" * 16),
            end_points=endpoint_entries(REGISTRATION.endpoints),
            features=feature_entries(FEATURES.items()),
        ),
        partition_record(ORDERS, 3, PARTITION),
        records.partition_change_record(ORDERS, 3, PartitionChange(isr=(), leader=-1)),
        records.config_record(ConfigResource(4, ""), "k", None),
        records.broker_change_record(BROKER, fenced=FENCE),
        records.broker_change_record(BROKER, fenced=UNFENCE),
        records.broker_change_record(BROKER, in_controlled_shutdown=1),
        records.register_broker_record(REGISTRATION, 7, None),
    ],
    ids=lambda record: type(record).__name__,
)
def test_the_log_carries_every_form(record: MetadataRecord) -> None:
    """Goal: encoded and decoded, nothing is lost: a standby sees what the active one decided."""
    assert decode_record(encode_record(record)) == record


def test_a_new_partition_comes_back_whole() -> None:
    """Goal: the image of a created partition is the one that was meant."""
    image = after(
        an_image(BROKER),
        [TopicRecord(name="orders", topic_id=ORDERS), partition_record(ORDERS, 0, PARTITION)],
    )
    assert image.partition(ORDERS, 0) == PARTITION


def test_what_a_change_leaves_alone() -> None:
    """Goal: "unchanged" has its own spelling in each field."""
    record = records.partition_change_record(ORDERS, 0, PartitionChange())
    assert (record.leader, record.leader_recovery_state) == (LEADER_UNCHANGED, RECOVERY_UNCHANGED)
    assert record.isr is record.eligible_leader_replicas is record.last_known_elr is None
    states = [
        records.partition_change_record(
            ORDERS, 0, PartitionChange(recovering=recovering)
        ).leader_recovery_state
        for recovering in (True, False)
    ]
    assert states == [RECOVERING, RECOVERED]


@pytest.mark.parametrize(("fenced", "leaving"), [(True, True), (True, False), (False, False)])
def test_an_amended_registration_keeps_its_state(fenced: bool, leaving: bool) -> None:
    """Goal: a new incarnation begins fenced and staying; the same one stays as it is."""
    new = records.register_broker_record(REGISTRATION, 7, None)
    assert (new.fenced, new.in_controlled_shutdown) == (True, False)
    kept = a_broker(1, fenced=fenced, in_controlled_shutdown=leaving)
    amended = records.register_broker_record(REGISTRATION, 7, kept)
    assert (amended.fenced, amended.in_controlled_shutdown) == (fenced, leaving)
    image = after(an_image(), [new])
    assert image.brokers[1].endpoints == REGISTRATION.endpoints


def test_an_unclean_election_shows_in_the_recovery_it_asks_for() -> None:
    def is_unclean(**change: Any) -> bool:
        record = records.partition_change_record(ORDERS, 0, PartitionChange(**change))
        return records.is_unclean_election(record)

    assert is_unclean(leader=1, recovering=True)
    assert not is_unclean(leader=1)
    assert not is_unclean(recovering=False)
    assert not records.is_unclean_election(TopicRecord(name="orders", topic_id=ORDERS))
