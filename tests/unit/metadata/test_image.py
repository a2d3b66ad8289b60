"""Questions that readers ask an image."""

from tests.unit.metadata.kafka_log import kafka_steps
from tidelog.metadata.image import EMPTY_IMAGE, PartitionImage, TopicImage
from tidelog.model import Endpoint, TopicId


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
