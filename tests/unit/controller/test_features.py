"""Feature levels: what may change, what is refused and with which words."""

from dataclasses import replace

import pytest

from tests.unit.controller.harness import a_broker, a_view, an_image
from tidelog.controller.features import decide_update_features
from tidelog.controller.messages import FeatureUpdate, UpdateFeatures, UpgradeType
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.metadata.image import (
    BROKER_RESOURCE,
    CLUSTER_DEFAULT,
    ConfigResource,
    ControllerImage,
    PartitionImage,
    TopicImage,
)
from tidelog.metadata.records import ClearElrRecord, ConfigRecord, FeatureLevelRecord, NoOpRecord
from tidelog.model import TopicId, Uuid

UP, SAFE, UNSAFE = UpgradeType
MV, ELR, KRAFT = "metadata.version", "eligible.leader.replicas.version", "kraft.version"
TXN = "transaction.version"
KNOWN = {MV: (7, 30), ELR: (0, 1), KRAFT: (0, 1), "group.version": (0, 1), TXN: (0, 0)}


class Quorum:
    """A quorum of two voters that does what it is asked to."""

    def __init__(self) -> None:
        self.kraft_version = 0
        self.voter_ids = (100, 101)
        self.refusal: tuple[ErrorCode, str] = (ErrorCode.NONE, "")

    def upgrade_version(self, level: int, *, validate_only: bool) -> tuple[ErrorCode, str]:
        """Notes the level."""
        if self.refusal[0] is ErrorCode.NONE and not validate_only:
            self.kraft_version = level
        return self.refusal


def controller(node_id: int, **features: tuple[int, int]) -> ControllerImage:
    """A registered controller."""
    return ControllerImage(node_id, Uuid(bytes(16)), (), KNOWN | features)


def cluster(**levels: int):
    """Two controllers and three brokers that know everything, at these levels."""
    image = an_image(*(a_broker(node_id, features=KNOWN) for node_id in (1, 2, 3)))
    features = {MV: 30, ELR: 1} | {name.replace("_", "."): level for name, level in levels.items()}
    return replace(
        image,
        controllers={100: controller(100), 101: controller(101)},
        features={name: level for name, level in features.items() if level},
    )


def ask(image, *updates, quorum=None, validate_only=False):
    """The records of a decision."""
    request = UpdateFeatures(tuple(FeatureUpdate(*each) for each in updates), validate_only)
    decision = decide_update_features(a_view(image), quorum or Quorum(), request)
    return list(decision.records)


def level(name: str, value: int) -> FeatureLevelRecord:
    """The record of a level."""
    return FeatureLevelRecord(name=name, feature_level=value)


def test_levels_go_up_and_the_same_level_writes_nothing():
    assert ask(cluster(metadata_version=25), (MV, 30, UP)) == [level(MV, 30)]
    assert ask(cluster(), (MV, 30, UP), (ELR, 1, UP), (KRAFT, 0, UP)) == []
    assert ask(cluster(metadata_version=25), (MV, 30, UP), validate_only=True) == []


@pytest.mark.parametrize(
    ("update", "text"),
    [
        ((ELR, 1, 0), "The controller does not support the given upgrade type."),
        ((ELR, -1, SAFE), "A feature version cannot be less than 0."),
        ((ELR, 2, UP), "controller 100 only supports versions 0-1"),
        ((TXN, 1, UP), "controller 100 does not support this feature."),
        (("nonsense", 1, UP), "controller 100 does not support this feature."),
        ((ELR, 0, UP), "Can't downgrade the version of this feature without setting the upgrade"),
        ((MV, 29, SAFE), "Refusing to perform the requested downgrade"),
        ((MV, 29, UNSAFE), "Unsafe metadata downgrade is not supported"),
    ],
)
def test_what_kafka_refuses_is_refused_in_its_words(update, text):
    with pytest.raises(ProtocolError, match="Invalid ") as caught:
        ask(cluster(), update)
    assert caught.value.code is ErrorCode.INVALID_UPDATE_VERSION
    assert text in caught.value.message


def test_a_downgrade_to_a_newer_level_is_refused():
    with pytest.raises(ProtocolError, match="Can't downgrade to a newer version"):
        ask(cluster(metadata_version=25), (MV, 30, SAFE))


def test_every_registered_node_must_know_the_level():
    image = cluster(metadata_version=25)
    old = replace(image.brokers[2], features=KNOWN | {MV: (7, 29)})
    with pytest.raises(ProtocolError, match="broker 2 only supports versions 7-29"):
        ask(replace(image, brokers={**image.brokers, 2: old}), (MV, 30, UP))
    alone = replace(image, controllers={100: controller(100)})
    with pytest.raises(ProtocolError, match="controller 101 has not registered"):
        ask(alone, (MV, 30, UP))


def test_eligible_leaders_need_one_min_isr_and_a_record_that_has_room():
    own = ConfigResource(BROKER_RESOURCE, "2")
    image = replace(
        cluster(eligible_leader_replicas_version=0),
        configs={own: {"min.insync.replicas": "1", "other": "x"}},
    )
    first, second, third = ask(image, (ELR, 1, UP))
    assert isinstance(first, ConfigRecord) and first.resource_name == CLUSTER_DEFAULT.name
    assert (first.name, first.value) == ("min.insync.replicas", "2")
    assert isinstance(second, ConfigRecord) and second.resource_name == "2"
    assert (second.name, second.value) == ("min.insync.replicas", None)
    assert third == level(ELR, 1)
    old = cluster(metadata_version=22, eligible_leader_replicas_version=0)
    with pytest.raises(ProtocolError, match=r"depends on metadata\.version level 23"):
        ask(old, (ELR, 1, UP))
    assert ask(old, (ELR, 1, UP), (MV, 30, UP))[-1] == level(MV, 30)


def test_eligible_leaders_are_forgotten_but_not_where_they_are_all_there_is():
    image = cluster()
    assert ask(image, (ELR, 0, SAFE)) == [level(ELR, 0), ClearElrRecord(topic_name="")]
    stuck = PartitionImage((1, 2, 3), (), -1, 4, 5, eligible_leaders=(1,))
    topic = TopicImage("t", TopicId(b"t" * 16), {0: stuck})
    image = replace(image, topics_by_id={topic.topic_id: topic}, topics_by_name={"t": topic})
    with pytest.raises(ProtocolError, match="No replica is in sync for t-0"):
        ask(image, (ELR, 0, SAFE))


def test_the_quorum_is_asked_last_and_may_refuse():
    quorum = Quorum()
    with pytest.raises(ProtocolError, match="nonsense"):
        ask(cluster(), (KRAFT, 1, UP), ("nonsense", 1, UP), quorum=quorum)
    assert quorum.kraft_version == 0
    assert ask(cluster(), (KRAFT, 1, UP), quorum=quorum, validate_only=True) == []
    assert quorum.kraft_version == 0
    assert ask(cluster(), (KRAFT, 1, UP), quorum=quorum) == [NoOpRecord()]
    assert quorum.kraft_version == 1
    assert ask(cluster(), (KRAFT, 1, UP), quorum=quorum) == []
    quorum.refusal = (ErrorCode.REQUEST_TIMED_OUT, "later")
    with pytest.raises(ProtocolError, match="later"):
        ask(cluster(), (KRAFT, 1, UP), quorum=quorum)
