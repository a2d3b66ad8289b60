"""Questions that readers ask an image."""

from dataclasses import replace

from tests.unit.metadata.kafka_log import kafka_steps
from tidelog.metadata.image import (
    EMPTY_IMAGE,
    BrokerImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from tidelog.model import Endpoint, TopicId, Uuid


def test_the_empty_image_knows_nothing() -> None:
    """Goal: every question has an answer before the first record."""
    assert EMPTY_IMAGE.offset == -1
    assert EMPTY_IMAGE.topic("orders") is None
    assert EMPTY_IMAGE.topic_configs("orders") == EMPTY_IMAGE.broker_configs(1) == {}
    assert not EMPTY_IMAGE.is_active(1)
    assert not EMPTY_IMAGE.elr_enabled
    assert not EMPTY_IMAGE.leads(1)
    assert not EMPTY_IMAGE.leads(-1)


def test_leading() -> None:
    """Goal: found in any topic; broker -1 leads nothing, however many are leaderless."""
    image = next(step.after for step in kafka_steps() if step.after.leads(1))
    assert image.leads(1)
    leaderless = TopicImage("t", TopicId(b"t" * 16), {0: PartitionImage((1,), (), -1, 0, 0)})
    assert not type(image)(topics_by_id={leaderless.topic_id: leaderless}).leads(-1)


def test_brokers_and_their_endpoints() -> None:
    """Goal: a broker has the endpoint of a listener, or not."""
    image = next(step.after for step in kafka_steps() if step.after.is_active(1))
    broker = image.brokers[1]
    assert broker.endpoint("INTERNAL") == Endpoint("INTERNAL", "127.0.0.1", 29143)
    assert broker.endpoint("CONTROLLER") is None
    assert not image.is_active(9)


def a_broker(node_id: int, *, fenced: bool = False) -> BrokerImage:
    """A registered broker with the listener `INTERNAL`."""
    return BrokerImage(
        node_id=node_id,
        broker_epoch=node_id,
        incarnation_id=Uuid(bytes((node_id,)) * 16),
        endpoints=(Endpoint("INTERNAL", f"host{node_id}", 9092),),
        rack=f"rack{node_id}",
        fenced=fenced,
        in_controlled_shutdown=node_id == 2,
        features={},
        log_dirs=(),
        registration_offset=0,
    )


ALIVE = MetadataImage(brokers={1: a_broker(1), 2: a_broker(2), 3: a_broker(3, fenced=True)})


def test_alive_is_registered_and_unfenced() -> None:
    assert [ALIVE.is_alive(node_id) for node_id in (1, 2, 3, 4)] == [True, True, False, False]


def test_alive_brokers_of_a_listener() -> None:
    elsewhere = replace(ALIVE.brokers[2], endpoints=(Endpoint("OTHER", "x", 1),))
    assert [row[0] for row in ALIVE.alive_brokers("INTERNAL")] == [1, 2]
    moved = replace(ALIVE, brokers={**ALIVE.brokers, 2: elsewhere})
    assert [row[0] for row in moved.alive_brokers("INTERNAL")] == [1]
    assert moved.alive_brokers("OTHER") == [(2, Endpoint("OTHER", "x", 1), "rack2")]
    assert moved.endpoint(2, "INTERNAL") is None
    assert moved.endpoint(9, "INTERNAL") is None


def test_offline_replicas_are_on_brokers_that_are_fenced_or_not_registered() -> None:
    partition = PartitionImage((4, 1, 3, 2), (1,), 1, 0, 0)
    assert ALIVE.offline_replicas(partition) == (4, 3)
