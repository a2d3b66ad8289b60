"""Images as records: what is written folds back into the image, for every kind of record."""

from collections.abc import Callable

import pytest

from tests.unit.metadata.kafka_log import kafka_steps
from tidelog.env.prng import Prng
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage
from tidelog.metadata.image_records import image_records
from tidelog.metadata.record_codec import decode_record, encode_record
from tidelog.metadata.records import (
    FENCE,
    RECOVERING,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndpointEntry,
    FeatureEntry,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntity,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    UserScramCredentialRecord,
)
from tidelog.model import TopicId, Uuid


def saved_and_loaded(image: MetadataImage) -> MetadataImage:
    values = [encode_record(record) for record in image_records(image)]
    delta = MetadataDelta(EMPTY_IMAGE)
    for value in values:
        delta.replay(decode_record(value), image.offset)
    return delta.apply(image.offset, image.epoch)


class RandomLog:
    """Draws records that a controller could write on top of an image."""

    def __init__(self, seed: int) -> None:
        self.prng = Prng(seed)
        self.image = EMPTY_IMAGE

    def step(self) -> None:
        draw = self.prng.choice(DRAWS)
        records = draw(self, self.prng)
        delta = MetadataDelta(self.image)
        for index, record in enumerate(records):
            delta.replay(record, self.image.offset + 1 + index)
        self.image = delta.apply(self.image.offset + max(1, len(records)), 3)

    def broker(self, prng: Prng) -> list[MetadataRecord]:
        epoch = max(0, self.image.offset + 1)
        return [
            RegisterBrokerRecord(
                broker_id=prng.below(5),
                incarnation_id=Uuid(prng.uuid()),
                broker_epoch=epoch,
                end_points=entries(prng),
                features=features(prng),
                rack=prng.choice((None, "a", "b")),
                fenced=prng.chance(1, 2),
                in_controlled_shutdown=prng.chance(1, 5),
                log_dirs=tuple(Uuid(prng.uuid()) for _ in range(prng.below(3))),
                cordoned_log_dirs=prng.choice((None, (Uuid(b"c" * 16),))),
            )
        ]

    def broker_change(self, prng: Prng) -> list[MetadataRecord]:
        if not self.image.brokers:
            return []
        broker = prng.choice(list(self.image.brokers.values()))
        if prng.chance(1, 3):
            return [
                UnregisterBrokerRecord(broker_id=broker.node_id, broker_epoch=broker.broker_epoch)
            ]
        return [
            BrokerRegistrationChangeRecord(
                broker_id=broker.node_id,
                broker_epoch=broker.broker_epoch,
                fenced=prng.choice((FENCE, -FENCE)),
                in_controlled_shutdown=prng.below(2),
                cordoned_log_dirs=prng.choice((None, (), (Uuid(b"d" * 16),))),
            )
        ]

    def controller(self, prng: Prng) -> list[MetadataRecord]:
        controller_id = prng.below(4)
        if prng.chance(1, 4):
            return [UnregisterControllerRecord(controller_id=controller_id)]
        return [
            RegisterControllerRecord(
                controller_id=controller_id,
                incarnation_id=Uuid(prng.uuid()),
                end_points=entries(prng),
                features=features(prng),
            )
        ]

    def topic(self, prng: Prng) -> list[MetadataRecord]:
        name = f"t{prng.below(6)}"
        known = self.image.topic(name)
        records: list[MetadataRecord] = []
        if known is not None:
            if prng.chance(1, 2):
                return []
            records.append(RemoveTopicRecord(topic_id=known.topic_id))
        topic_id = TopicId(prng.uuid())
        records.append(TopicRecord(name=name, topic_id=topic_id))
        records += [partition(prng, topic_id, number) for number in range(prng.between(1, 4))]
        return records

    def partition_change(self, prng: Prng) -> list[MetadataRecord]:
        if not self.image.topics_by_id:
            return []
        topic = prng.choice(list(self.image.topics_by_id.values()))
        return [
            PartitionChangeRecord(
                partition_id=prng.below(len(topic.partitions)),
                topic_id=topic.topic_id,
                isr=prng.choice((None, (1,), (2, 1))),
                leader=prng.choice((-2, -1, 1)),
                removing_replicas=prng.choice((None, (), (3,))),
                eligible_leader_replicas=prng.choice((None, (), (3,))),
                last_known_elr=prng.choice((None, (), (2,))),
            )
        ]

    def clear_elr(self, prng: Prng) -> list[MetadataRecord]:
        names = ["", *self.image.topics_by_name]
        return [ClearElrRecord(topic_name=prng.choice(names))]

    def config(self, prng: Prng) -> list[MetadataRecord]:
        return [
            ConfigRecord(
                resource_type=prng.choice((2, 4)),
                resource_name=prng.choice(("", "1", "t0")),
                name=prng.choice(("retention.ms", "min.insync.replicas")),
                value=prng.choice((None, "1", "2")),
            )
        ]

    def feature(self, prng: Prng) -> list[MetadataRecord]:
        name = prng.choice(("metadata.version", "eligible.leader.replicas.version", "a.version"))
        return [FeatureLevelRecord(name=name, feature_level=prng.below(3))]

    def producer_ids(self, prng: Prng) -> list[MetadataRecord]:
        following = self.image.next_producer_id + 1000 * prng.below(2)
        return [ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=following)]

    def acl(self, prng: Prng) -> list[MetadataRecord]:
        entry_id = Uuid(bytes([prng.below(3)]) * 16)
        if prng.chance(1, 3):
            return [RemoveAccessControlEntryRecord(id=entry_id)]
        return [
            AccessControlEntryRecord(
                id=entry_id,
                resource_type=2,
                resource_name=prng.choice(("a", "b")),
                pattern_type=3,
                principal="User:x",
                host="*",
                operation=3,
                permission_type=3,
            )
        ]

    def scram(self, prng: Prng) -> list[MetadataRecord]:
        name, mechanism = prng.choice(("ada", "bob")), prng.between(1, 2)
        if prng.chance(1, 3):
            return [RemoveUserScramCredentialRecord(name=name, mechanism=mechanism)]
        return [
            UserScramCredentialRecord(
                name=name,
                mechanism=mechanism,
                salt=prng.uuid(),
                stored_key=b"s",
                server_key=b"k",
                iterations=4096,
            )
        ]

    def token(self, prng: Prng) -> list[MetadataRecord]:
        token_id = prng.choice(("x", "y"))
        if prng.chance(1, 3):
            return [RemoveDelegationTokenRecord(token_id=token_id)]
        return [
            DelegationTokenRecord(
                owner="o",
                requester="r",
                renewers=("a",),
                issue_timestamp=1,
                max_timestamp=prng.below(9),
                expiration_timestamp=3,
                token_id=token_id,
            )
        ]

    def quota(self, prng: Prng) -> list[MetadataRecord]:
        parts = [
            QuotaEntity(entity_type="user", entity_name=prng.choice((None, "", "ada"))),
            QuotaEntity(entity_type="client-id", entity_name="c"),
        ]
        prng.shuffle(parts)
        return [
            ClientQuotaRecord(
                entity=tuple(parts),
                key="producer_byte_rate",
                value=float(prng.below(9)),
                remove=prng.chance(1, 3),
            )
        ]


DRAWS: list[Callable[[RandomLog, Prng], list[MetadataRecord]]] = [
    RandomLog.broker,
    RandomLog.broker_change,
    RandomLog.controller,
    RandomLog.topic,
    RandomLog.partition_change,
    RandomLog.clear_elr,
    RandomLog.config,
    RandomLog.feature,
    RandomLog.producer_ids,
    RandomLog.acl,
    RandomLog.scram,
    RandomLog.token,
    RandomLog.quota,
]


def entries(prng: Prng) -> tuple[EndpointEntry, ...]:
    return tuple(
        EndpointEntry(name=f"L{n}", host="h", port=prng.below(65536), security_protocol=n)
        for n in range(prng.below(3))
    )


def features(prng: Prng) -> tuple[FeatureEntry, ...]:
    return tuple(
        FeatureEntry(name=name, min_supported_version=0, max_supported_version=prng.below(9))
        for name in ("z", "a")
        if prng.chance(1, 2)
    )


def partition(prng: Prng, topic_id: TopicId, number: int) -> PartitionRecord:
    return PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=(1, 2, 3),
        isr=prng.choice(((1,), (1, 2, 3))),
        removing_replicas=prng.choice(((), (3,))),
        adding_replicas=prng.choice(((), (2,))),
        leader=prng.choice((1, -1)),
        leader_recovery_state=prng.choice((0, RECOVERING)),
        leader_epoch=prng.below(5),
        partition_epoch=prng.below(9),
        directories=prng.choice(((), (Uuid(b"1" * 16), Uuid(b"2" * 16), Uuid(b"3" * 16)))),
        eligible_leader_replicas=prng.choice((None, (2,))),
        last_known_elr=prng.choice((None, (3,))),
    )


@pytest.mark.parametrize("seed", range(20))
def test_what_is_saved_is_what_is_loaded(seed: int) -> None:
    """SnapshotIsImage. Method: 150 random steps of all kinds, the image checked every tenth."""
    log = RandomLog(seed)
    for count in range(150):
        log.step()
        if count % 10 == 9:
            assert saved_and_loaded(log.image) == log.image


def test_a_log_of_kafka_is_saved_and_loaded() -> None:
    """Goal: the inverse holds for what Kafka writes; registrations move to the snapshot's end."""
    image = kafka_steps()[-1].after
    assert image.topics_by_id
    assert image.brokers
    loaded = saved_and_loaded(image)
    assert loaded == image
    assert {b.registration_offset for b in loaded.brokers.values()} == {image.offset}


def test_equal_images_give_equal_records() -> None:
    """Goal: the way to an image leaves no trace in its snapshot."""
    log = RandomLog(99)
    for _ in range(200):
        log.step()
    loaded = saved_and_loaded(log.image)
    assert list(image_records(loaded)) == list(image_records(log.image))


def test_metadata_version_comes_first() -> None:
    """Goal: Kafka reads the version before anything that depends on it."""
    records = [
        FeatureLevelRecord(name=name, feature_level=1) for name in ("a.version", "metadata.version")
    ]
    delta = MetadataDelta(EMPTY_IMAGE)
    for record in records:
        delta.replay(record, 0)
    assert list(image_records(delta.apply(0, 0))) == records[::-1]


def test_half_a_transaction_has_no_snapshot() -> None:
    """Goal: what may still be aborted is never saved."""
    delta = MetadataDelta(EMPTY_IMAGE)
    delta.replay(BeginTransactionRecord(name="x"), 0)
    with pytest.raises(AssertionError, match="inside of a metadata transaction"):
        list(image_records(delta.apply(0, 0)))


@pytest.mark.parametrize("seed", range(10))
def test_the_difference_of_two_images_has_everything_that_changed(seed: int) -> None:
    """Goal: a reader of differences learns of what is gone, too. Method: everything that
    differs must be named, and nothing else."""
    log = RandomLog(1000 + seed)
    for _ in range(80):
        log.step()
    before = log.image
    for _ in range(30):
        log.step()
    after = log.image
    delta = MetadataDelta.between(before, after)
    applied = delta.apply(after.offset, after.epoch)
    assert applied == after
    assert applied.deleted_topics == before.deleted_topics + len(delta.deleted_topics)
    gone = [t.topic_id for t in delta.deleted_topics]
    assert gone == [i for i in before.topics_by_id if i not in after.topics_by_id]
    for topic_id, topic in after.topics_by_id.items():
        assert (topic_id in delta.changed_topic_ids) == (before.topics_by_id.get(topic_id) != topic)
    for broker_id in {*before.brokers, *after.brokers}:
        changed = before.brokers.get(broker_id) != after.brokers.get(broker_id)
        assert (broker_id in delta.changed_brokers) == changed
    for resource in {*before.configs, *after.configs}:
        changed = before.configs.get(resource) != after.configs.get(resource)
        assert (resource in delta.changed_configs) == changed


def test_nothing_is_replayed_on_a_difference() -> None:
    """Goal: a difference is complete."""
    delta = MetadataDelta.between(EMPTY_IMAGE, MetadataImage(offset=4, epoch=1))
    with pytest.raises(AssertionError, match="replayed on a difference"):
        delta.replay(FeatureLevelRecord(name="a", feature_level=1), 5)
