"""Deltas: each record kind, what is shared and what is reported, and a whole log of Apache
Kafka."""

import re

import pytest

from tests.fixtures import kafka_files
from tests.unit.metadata.kafka_log import kafka_steps
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import (
    CLUSTER_DEFAULT,
    EMPTY_IMAGE,
    BrokerImage,
    ConfigResource,
    MetadataImage,
    PartitionImage,
)
from tidelog.metadata.records import (
    FENCE,
    LEADER_UNCHANGED,
    RECOVERED,
    RECOVERING,
    UNFENCE,
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    EndpointEntry,
    EndTransactionRecord,
    FeatureEntry,
    FeatureLevelRecord,
    FenceBrokerRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    UserScramCredentialRecord,
)
from tidelog.metadata.topics_delta import merge_partition
from tidelog.model import Endpoint, TopicId, Uuid, uuid_to_text

ORDERS = TopicId(b"o" * 16)
PAYMENTS = TopicId(b"p" * 16)


def replay(image: MetadataImage, *records: MetadataRecord) -> MetadataDelta:
    delta = MetadataDelta(image)
    for offset, record in enumerate(records, start=image.offset + 1):
        delta.replay(record, offset)
    return delta


def step(image: MetadataImage, *records: MetadataRecord) -> MetadataImage:
    return replay(image, *records).apply(image.offset + len(records), 1)


def partition_of(topic_id: TopicId, number: int = 0) -> PartitionRecord:
    return PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=(1, 2, 3),
        isr=(1, 2, 3),
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
    )


def registration(broker_id: int, epoch: int, incarnation: bytes = b"i") -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=Uuid(incarnation * 16),
        broker_epoch=epoch,
        end_points=(EndpointEntry(name="PLAIN", host="h", port=9092, security_protocol=0),),
        features=(
            FeatureEntry(
                name="metadata.version", min_supported_version=7, max_supported_version=30
            ),
        ),
        rack="r1",
        log_dirs=(Uuid(b"d" * 16),),
    )


@pytest.fixture
def image() -> MetadataImage:
    """Topic `orders` with two partitions."""
    return step(
        EMPTY_IMAGE,
        TopicRecord(name="orders", topic_id=ORDERS),
        partition_of(ORDERS, 0),
        partition_of(ORDERS, 1),
    )


# Topics and partitions ---------------------------------------------------------------------


def test_a_topic_is_found_by_name_and_id(image: MetadataImage) -> None:
    """Goal: creation fills both maps, with all partitions."""
    topic = image.topic("orders")
    assert topic is image.topics_by_id[ORDERS]
    assert topic is not None
    assert list(topic.partitions) == [0, 1]
    assert image.partition(ORDERS, 1) == PartitionImage((1, 2, 3), (1, 2, 3), 1, 0, 0)
    assert image.partition(PAYMENTS, 0) is None


def test_only_what_changes_is_copied(image: MetadataImage) -> None:
    """Goal: images share untouched topics and partitions; a no-op shares every map."""
    image = step(image, TopicRecord(name="payments", topic_id=PAYMENTS), partition_of(PAYMENTS))
    change = PartitionChangeRecord(partition_id=0, topic_id=ORDERS, isr=(1, 2))
    after = step(image, change)
    assert after.topics_by_id[PAYMENTS] is image.topics_by_id[PAYMENTS]
    assert after.partition(ORDERS, 1) is image.partition(ORDERS, 1)
    assert image.partition(ORDERS, 0) != after.partition(ORDERS, 0)
    idle = step(after, NoOpRecord())
    assert idle.topics_by_id is after.topics_by_id
    assert idle.brokers is after.brokers
    assert (idle.offset, after.offset) == (after.offset + 1, image.offset + 1)


@pytest.mark.parametrize(
    ("leader", "leader_epoch"),
    [(LEADER_UNCHANGED, 0), (2, 1), (1, 1), (-1, 1)],
    ids=["unchanged", "another", "the same again", "none"],
)
def test_epochs_of_a_change(image: MetadataImage, leader: int, leader_epoch: int) -> None:
    """Goal: every change bumps the partition epoch, a written leader bumps the leader epoch."""
    change = PartitionChangeRecord(partition_id=0, topic_id=ORDERS, leader=leader)
    after = step(image, change).partition(ORDERS, 0)
    assert after is not None
    assert (after.partition_epoch, after.leader_epoch) == (1, leader_epoch)
    assert after.leader == (1 if leader == LEADER_UNCHANGED else leader)


def test_a_change_writes_what_it_names_and_no_more() -> None:
    """Goal: `None` keeps a field, an empty tuple empties it."""
    partition = PartitionImage((1, 2), (1,), 1, 3, 5, (2,), (2,), (2,), (1,), True)
    blank = PartitionChangeRecord(partition_id=0, topic_id=ORDERS)
    assert merge_partition(partition, blank) == PartitionImage(
        (1, 2), (1,), 1, 3, 6, (2,), (2,), (2,), (1,), True
    )
    full = PartitionChangeRecord(
        partition_id=0,
        topic_id=ORDERS,
        isr=(),
        leader=-1,
        replicas=(2, 1),
        removing_replicas=(),
        adding_replicas=(),
        leader_recovery_state=RECOVERED,
        directories=(Uuid(b"d" * 16), Uuid(b"e" * 16)),
        eligible_leader_replicas=(),
        last_known_elr=(),
    )
    assert merge_partition(partition, full) == PartitionImage(
        (2, 1), (), -1, 4, 6, directories=(Uuid(b"d" * 16), Uuid(b"e" * 16))
    )
    again = PartitionChangeRecord(partition_id=0, topic_id=ORDERS, leader_recovery_state=RECOVERING)
    assert merge_partition(merge_partition(partition, full), again).recovering


def test_a_delta_names_what_changed(image: MetadataImage) -> None:
    """Goal: replicas look only at topics that a delta names."""
    delta = replay(
        image,
        TopicRecord(name="payments", topic_id=PAYMENTS),
        PartitionChangeRecord(partition_id=0, topic_id=ORDERS, isr=(1,)),
        registration(4, 7),
        ConfigRecord(resource_type=2, resource_name="orders", name="k", value="v"),
    )
    assert list(delta.changed_topic_ids) == [PAYMENTS, ORDERS]
    assert list(delta.changed_brokers) == [4]
    assert list(delta.changed_configs) == [ConfigResource(2, "orders")]
    assert delta.deleted_topics == []


@pytest.mark.parametrize("name", ["..", ".", "", "../x", "a/../b", "/etc", "a\0", "a" * 250])
def test_a_name_that_leads_out_of_a_directory_is_never_a_topic(
    image: MetadataImage, name: str
) -> None:
    """Records and snapshots come from other nodes (NATS had CVE-2022-26652)."""
    with pytest.raises(AssertionError, match="cannot be"):
        replay(image, TopicRecord(name=name, topic_id=TopicId(b"x" * 16)))


def test_a_removed_topic_takes_its_configs_along(image: MetadataImage) -> None:
    """Goal: deletion empties both maps and the configs, and is reported with the old image."""
    config = ConfigRecord(resource_type=2, resource_name="orders", name="k", value="v")
    image = step(image, config)
    delta = replay(image, RemoveTopicRecord(topic_id=ORDERS))
    after = delta.apply(image.offset + 1, 1)
    assert delta.deleted_topics == [image.topics_by_id[ORDERS]]
    assert list(delta.changed_topic_ids) == []
    assert (after.topics_by_name, after.topics_by_id, after.configs) == ({}, {}, {})


def test_a_topic_is_removed_and_made_again_in_one_delta(image: MetadataImage) -> None:
    """Goal: the name belongs to the new id, the old id is reported as deleted."""
    delta = replay(
        image,
        RemoveTopicRecord(topic_id=ORDERS),
        TopicRecord(name="orders", topic_id=PAYMENTS),
        partition_of(PAYMENTS),
        ClearElrRecord(topic_name="orders"),
    )
    after = delta.apply(image.offset + 4, 1)
    assert [topic.topic_id for topic in delta.deleted_topics] == [ORDERS]
    topic = after.topic("orders")
    assert topic is not None
    assert topic.topic_id == PAYMENTS
    assert list(after.topics_by_id) == [PAYMENTS]


def test_a_topic_that_lived_within_a_delta_leaves_no_trace(image: MetadataImage) -> None:
    """Goal: created and removed in one delta: neither changed nor deleted."""
    delta = replay(
        image,
        TopicRecord(name="payments", topic_id=PAYMENTS),
        partition_of(PAYMENTS),
        ConfigRecord(resource_type=2, resource_name="payments", name="k", value="v"),
        RemoveTopicRecord(topic_id=PAYMENTS),
    )
    after = delta.apply(image.offset + 4, 1)
    assert (list(delta.changed_topic_ids), delta.deleted_topics) == ([], [])
    assert after.topics_by_id == image.topics_by_id
    assert after.configs == {}


@pytest.mark.parametrize("name", ["orders", ""])
def test_clearing_elrs_changes_only_partitions_that_have_one(
    image: MetadataImage, name: str
) -> None:
    """Goal: Kafka counts the clearing as a partition change, for those partitions alone."""
    change = PartitionChangeRecord(
        partition_id=0, topic_id=ORDERS, isr=(1,), eligible_leader_replicas=(2,)
    )
    image = step(image, change)
    after = step(image, ClearElrRecord(topic_name=name))
    assert after.partition(ORDERS, 0) == PartitionImage((1, 2, 3), (1,), 1, 0, 2)
    assert after.partition(ORDERS, 1) is image.partition(ORDERS, 1)


@pytest.mark.parametrize(
    "record",
    [
        TopicRecord(name="orders", topic_id=PAYMENTS),
        PartitionChangeRecord(partition_id=2, topic_id=ORDERS, leader=1),
        PartitionChangeRecord(partition_id=0, topic_id=PAYMENTS, leader=1),
        RemoveTopicRecord(topic_id=PAYMENTS),
        ClearElrRecord(topic_name="payments"),
        UnregisterBrokerRecord(broker_id=1, broker_epoch=1),
        EndTransactionRecord(),
        AbortTransactionRecord(),
    ],
    ids=lambda record: type(record).__name__,
)
def test_what_no_controller_writes_is_a_bug(image: MetadataImage, record: MetadataRecord) -> None:
    """Goal: replay does not invent state for records that cannot be."""
    with pytest.raises(AssertionError):
        step(image, record)


# Brokers and controllers -------------------------------------------------------------------


def broker_after(*changes: MetadataRecord) -> BrokerImage:
    return step(EMPTY_IMAGE, NoOpRecord(), registration(1, 7), *changes).brokers[1]


def test_a_registered_broker() -> None:
    """Goal: all fields, fenced by default, and where the registration stands."""
    assert broker_after() == BrokerImage(
        node_id=1,
        broker_epoch=7,
        incarnation_id=Uuid(b"i" * 16),
        endpoints=(Endpoint("PLAIN", "h", 9092),),
        rack="r1",
        fenced=True,
        in_controlled_shutdown=False,
        features={"metadata.version": (7, 30)},
        log_dirs=(Uuid(b"d" * 16),),
        registration_offset=1,
    )


def change(**fields: int) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=1,
        broker_epoch=7,
        fenced=fields.get("fenced", 0),
        in_controlled_shutdown=fields.get("leaving", 0),
    )


def test_a_broker_is_unfenced_leaves_and_is_fenced() -> None:
    """Goal: each change touches its own field; controlled shutdown ends only by registration."""
    unfence, leave, fence = change(fenced=UNFENCE), change(leaving=1), change(fenced=FENCE)
    assert broker_after(unfence).active
    leaving = broker_after(unfence, leave)
    assert (leaving.fenced, leaving.in_controlled_shutdown, leaving.active) == (False, True, False)
    left = broker_after(unfence, leave, fence)
    assert (left.fenced, left.in_controlled_shutdown) == (True, True)
    back = broker_after(unfence, leave, fence, registration(1, 9, b"j"))
    assert (back.in_controlled_shutdown, back.broker_epoch) == (False, 9)


def test_the_older_fencing_records() -> None:
    """Goal: logs that began under an older Kafka replay."""
    unfenced = broker_after(UnfenceBrokerRecord(id=1, epoch=7))
    assert unfenced.active
    fenced = broker_after(UnfenceBrokerRecord(id=1, epoch=7), FenceBrokerRecord(id=1, epoch=7))
    assert not fenced.active


def test_directories_change() -> None:
    """Goal: empty log directories mean no change, cordoned ones are replaced."""
    cordon = BrokerRegistrationChangeRecord(
        broker_id=1, broker_epoch=7, cordoned_log_dirs=(Uuid(b"d" * 16),)
    )
    broker = broker_after(cordon)
    assert (broker.log_dirs, broker.cordoned_log_dirs) == ((b"d" * 16,), (b"d" * 16,))
    clear = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, cordoned_log_dirs=())
    assert broker_after(cordon, clear).cordoned_log_dirs == ()


def test_a_change_under_another_epoch_is_a_bug() -> None:
    """Goal: a record of an earlier life does not touch the next one."""
    with pytest.raises(AssertionError, match="registered with epoch 9, not 7"):
        broker_after(registration(1, 9), change(fenced=UNFENCE))


def test_unregistering() -> None:
    """Goal: brokers and controllers are forgotten, and reported as changed."""
    image = step(EMPTY_IMAGE, registration(1, 7))
    delta = replay(image, UnregisterBrokerRecord(broker_id=1, broker_epoch=7))
    assert delta.apply(1, 1).brokers == {}
    assert list(delta.changed_brokers) == [1]
    register = RegisterControllerRecord(controller_id=3, incarnation_id=Uuid(b"c" * 16))
    image = step(image, register)
    assert image.controllers[3].incarnation_id == b"c" * 16
    assert step(image, UnregisterControllerRecord(controller_id=3)).controllers == {}


# Configs, features, producer ids -----------------------------------------------------------


def test_configs_are_set_and_removed() -> None:
    """Goal: a resource without configs is not in the image."""
    put = ConfigRecord(resource_type=4, resource_name="", name="k", value="1")
    image = step(EMPTY_IMAGE, put)
    assert image.configs == {CLUSTER_DEFAULT: {"k": "1"}}
    assert image.broker_configs(None) == {"k": "1"}
    assert image.broker_configs(1) == image.topic_configs("orders") == {}
    drop = ConfigRecord(resource_type=4, resource_name="", name="k", value=None)
    assert step(image, drop).configs == {}


def test_features_and_elr() -> None:
    """Goal: level 0 removes a feature; the ELR switch follows its level."""
    name = "eligible.leader.replicas.version"
    image = step(EMPTY_IMAGE, FeatureLevelRecord(name=name, feature_level=1))
    assert image.elr_enabled
    assert not step(image, FeatureLevelRecord(name=name, feature_level=0)).elr_enabled


def test_producer_ids_only_grow() -> None:
    """Goal: no id is handed out twice."""
    block = ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=1000)
    image = step(EMPTY_IMAGE, block)
    assert image.next_producer_id == 1000
    with pytest.raises(AssertionError, match="below"):
        step(image, ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=999))


def test_access_control_entries_come_and_go_by_their_ids() -> None:
    """Goal: the image has what the log says, also when an id is removed that is not there."""
    entry = AccessControlEntryRecord(
        id=Uuid(b"a" * 16),
        resource_type=2,
        resource_name="orders",
        pattern_type=3,
        principal="User:x",
        host="*",
        operation=3,
        permission_type=3,
    )
    image = step(EMPTY_IMAGE, entry)
    assert image == MetadataImage(offset=0, epoch=1, acls={entry.id: entry})
    removal = RemoveAccessControlEntryRecord(id=entry.id)
    assert step(image, removal, removal).acls == {}


def test_kinds_that_no_component_reads_are_kept_as_they_are() -> None:
    """Goal: a log with credentials replays, and a snapshot will not lose them."""
    credential = UserScramCredentialRecord(
        name="ada", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
    )
    kept = {(11, "ada", 1): credential}
    assert step(EMPTY_IMAGE, credential) == MetadataImage(offset=0, epoch=1, kept_records=kept)


# Metadata transactions ---------------------------------------------------------------------


def test_a_transaction_takes_effect_at_its_end() -> None:
    """Goal: hidden over several images, then visible with the records' own offsets."""
    image = step(EMPTY_IMAGE, BeginTransactionRecord(name="x"), registration(1, 7))
    assert image.brokers == {}
    image = step(image, TopicRecord(name="orders", topic_id=ORDERS))
    assert image.topics_by_id == {}
    image = step(image, EndTransactionRecord(), NoOpRecord())
    assert image.brokers[1].registration_offset == 1
    assert image.topic("orders") is not None
    assert image.open_transaction is None


def test_an_aborted_transaction_never_happened() -> None:
    """Goal: an abort forgets everything since the beginning."""
    image = step(EMPTY_IMAGE, BeginTransactionRecord(), registration(1, 7))
    image = step(image, AbortTransactionRecord(), registration(2, 9))
    assert list(image.brokers) == [2]
    assert image.open_transaction is None


# A log of Apache Kafka ---------------------------------------------------------------------


def test_the_image_of_a_kafka_cluster() -> None:
    """Goal: Kafka's own log replays to its end, and the image says what its nodes' files say.

    Method: topic ids and partition counts from the partition directories, endpoints from the
    properties, the last epoch of each partition from its leader epoch checkpoint.
    """
    image = kafka_steps()[-1].after
    assert (image.offset, image.epoch, image.next_producer_id) == (622, 1, 3000)
    assert image.features["metadata.version"] == 30
    assert image.elr_enabled
    files = kafka_files("node1")
    for path, content in files.items():
        if not path.endswith("/partition.metadata") or path.startswith("__cluster_metadata"):
            continue
        name, _, number = path.rpartition("/")[0].rpartition("-")
        topic = image.topic(name)
        assert topic is not None, name
        assert f"topic_id: {uuid_to_text(topic.topic_id)}" in content.decode()
        partition = topic.partitions[int(number)]
        assert sorted(partition.replicas) == [1, 2, 3]
        checkpoint = files[f"{name}-{number}/leader-epoch-checkpoint"].decode().split("\n")
        epochs = [int(line.split()[0]) for line in checkpoint[2:] if line]
        assert max(epochs, default=0) <= partition.leader_epoch
    directories = {path.split("/")[0] for path in files if re.search(r"-\d+/", path)}
    partitions = sum(len(topic.partitions) for topic in image.topics_by_id.values())
    assert len(directories - {"__cluster_metadata-0"}) == partitions == 27


def test_the_brokers_of_a_kafka_cluster() -> None:
    """Goal: endpoints, directory ids and the state after a clean stop of all three nodes."""
    image = kafka_steps()[-1].after
    for node_id, port in ((1, 48092), (2, 48093), (3, 48094)):
        broker = image.brokers[node_id]
        assert broker.endpoint("PLAINTEXT") == Endpoint("PLAINTEXT", "127.0.0.1", port)
        meta = kafka_files(f"node{node_id}")["meta.properties"].decode()
        assert f"directory.id={uuid_to_text(broker.log_dirs[0])}" in meta
        assert broker.fenced
        assert broker.features["metadata.version"] == (7, 30)
        assert image.controllers[node_id].endpoints[0].port == 29191 + node_id
    assert image.topic_configs("compact")["cleanup.policy"] == "compact"
    assert image.broker_configs(None) == {"min.insync.replicas": "2"}


def test_a_kafka_topic_in_full() -> None:
    """Goal: leader, epochs, ISR and ELR after the last broker has left."""
    topic = kafka_steps()[-1].after.topic("plain")
    assert topic is not None
    partition = topic.partitions[1]
    assert (partition.replicas, partition.isr, partition.leader) == ((1, 2, 3), (), -1)
    assert (partition.leader_epoch, partition.partition_epoch) == (4, 9)
    assert partition.eligible_leaders == (2, 3)
    assert partition.last_known_eligible_leaders == (2,)
