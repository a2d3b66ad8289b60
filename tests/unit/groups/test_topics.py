"""What is a change of topics to a group, and what is not."""

from dataclasses import replace

from tests.unit.controller.harness import a_broker, an_image
from tidelog.groups.topics import Topics
from tidelog.metadata.image import PartitionImage

P = PartitionImage((1, 2), (1, 2), 1, 0, 0)


def hash_of(*names, image):
    topics = Topics()
    topics.update(image)
    return topics.hash_of(names)


def image_of(*racks, **topics):
    brokers = [a_broker(number, rack=rack) for number, rack in enumerate(racks, 1)]
    return an_image(*brokers, **topics)


BEFORE = image_of("r1", "r2", t=[P, P], u=[P])


def test_what_changes_the_hash():
    known = hash_of("t", image=BEFORE)
    for after in (
        image_of("r1", "r2", t=[P, P, P]),
        image_of("r1", "r3", t=[P, P]),
        image_of("r1", "r2", t=[P, replace(P, replicas=(1,))]),
    ):
        assert hash_of("t", image=after) != known
    assert hash_of("t", "u", image=BEFORE) != known
    assert hash_of("none", image=BEFORE) == 0


def test_what_does_not_change_it():
    known = hash_of("t", "u", image=BEFORE)
    moved = replace(P, leader=2, leader_epoch=5, isr=(2,))
    assert hash_of("u", "t", "none", image=image_of("r1", "r2", t=[P, moved], u=[P])) == known
    assert -(1 << 63) <= known < 1 << 63


def test_the_version_grows_when_something_may_have_changed():
    topics = Topics()
    topics.update(BEFORE)
    version = topics.version
    topics.update(replace(BEFORE, offset=2000))
    assert topics.version == version and topics.offset == 2000
    topics.update(image_of("r1", "r2", t=[P, P]))
    assert topics.version > version


def test_only_topics_that_exist_have_a_size():
    topics = Topics()
    topics.update(BEFORE)
    known = {name: topic.topic_id for name, topic in BEFORE.topics_by_name.items()}
    assert topics.sizes(["t", "none"]) == {known["t"]: 2}
    assert set(topics.names) == {"t", "u"}
