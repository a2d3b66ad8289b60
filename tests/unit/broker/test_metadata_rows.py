"""Packed topics of Metadata answers: what the generic writer would write, and only what changed."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.controller.harness import a_broker, an_image
from tidelog.broker.api.cluster_rows import partition_row, topic_row
from tidelog.broker.metadata_rows import MAX_KEPT_ANSWERS, PARTITION_WORK, MetadataRows
from tidelog.errors import ErrorCode
from tidelog.limits import ANSWER_SHARE
from tidelog.log.pieces import finish
from tidelog.metadata.image import MetadataImage, PartitionImage
from tidelog.model import TopicId, Uuid
from tidelog.security.rights import NOT_ASKED
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make, nested
from tidelog.wire.schema import write_entity

ONE = PartitionImage((1, 2, 3), (1, 2), 1, 7, 9)
NONE_IN_DOUBT: frozenset[int] = frozenset()
LISTENER = "PLAINTEXT"


def an_image_of(*, fenced: bool = False) -> MetadataImage:
    """A topic with an ordinary name and an internal one."""
    topics: dict[str, Any] = {
        "orders": [ONE, replace(ONE, leader=2), replace(ONE, leader=-1, isr=())],
        "__consumer_offsets": [ONE] * 130,
    }
    image = an_image(a_broker(1), a_broker(2, fenced=fenced), a_broker(3), **topics)
    by_name = {
        name: replace(topic, topic_id=TopicId(name[:16].encode().ljust(16)))
        for name, topic in image.topics_by_name.items()
    }
    by_id = {topic.topic_id: topic for topic in by_name.values()}
    return replace(image, topics_by_name=by_name, topics_by_id=by_id)


def written(image: MetadataImage, name: str, version: int) -> bytes:
    """The topic as the generic writer has it, with leaders that are alive."""
    topic = image.topics_by_name[name]
    rows = []
    for index, partition in topic.partitions.items():
        alive = image.is_alive(partition.leader)
        code = ErrorCode.NONE if alive else ErrorCode.LEADER_NOT_AVAILABLE
        rows.append(partition_row(image, code, partition.leader if alive else -1, index, partition))
    row = topic_row(ErrorCode.NONE, name, topic.topic_id, rows)
    out = bytearray()
    write_entity(out, make(nested(codec.response_class(ApiKey.METADATA, version), "topics"), **row))
    return bytes(out)


@pytest.mark.parametrize("version", range(14))
@pytest.mark.parametrize("fenced", [False, True])
def test_the_bytes_are_those_of_the_generic_writer(version: int, fenced: bool) -> None:
    image = an_image_of(fenced=fenced)
    rows = MetadataRows().of(image, NONE_IN_DOUBT, LISTENER, version, NOT_ASKED)
    for name, topic in image.topics_by_name.items():
        assert finish(rows.of(image, topic)) == written(image, name, version)


def test_a_topic_is_packed_again_only_when_it_or_somebodys_liveness_has_changed() -> None:
    """Goal: the cost of an answer is what has changed."""
    kept, image = MetadataRows(), an_image_of()

    def packed(
        image: MetadataImage, unreachable: frozenset[int] = NONE_IN_DOUBT
    ) -> dict[str, bytes]:
        rows = kept.of(image, unreachable, LISTENER, 12, NOT_ASKED)
        return {name: finish(rows.of(image, topic)) for name, topic in image.topics_by_name.items()}

    first = packed(image)
    assert all(again is first[name] for name, again in packed(image).items())
    orders = image.topics_by_name["orders"]
    moved = replace(orders, partitions={0: replace(ONE, leader=2, leader_epoch=8)})
    by_name = {**image.topics_by_name, "orders": moved}
    after = replace(image, topics_by_name=by_name)
    second = packed(after)
    assert second["orders"] != first["orders"]
    assert second["__consumer_offsets"] is first["__consumer_offsets"]
    assert packed(after, frozenset((1,)))["__consumer_offsets"] != first["__consumer_offsets"]
    fenced = replace(after, brokers={**after.brokers, 2: a_broker(2, fenced=True)})
    assert packed(fenced)["orders"] != second["orders"]


def test_replicas_in_a_failed_directory_are_offline_and_others_of_their_broker_are_not() -> None:
    """Goal: of two partitions with the same replicas and ISR each has its own offline replicas."""
    works, failed, other = (Uuid(name * 16) for name in (b"w", b"f", b"o"))
    topics = {
        "orders": [
            replace(ONE, replicas=(1, 2), isr=(2,), leader=2, directories=(directory, other))
            for directory in (works, failed)
        ]
    }
    image = an_image(
        replace(a_broker(1), log_dirs=(works,)), replace(a_broker(2), log_dirs=(other,)), **topics
    )
    orders = image.topics_by_name["orders"]
    offline = [image.offline_replicas(partition) for partition in orders.partitions.values()]
    assert offline == [(), (1,)]
    rows = MetadataRows().of(image, NONE_IN_DOUBT, LISTENER, 12, NOT_ASKED)
    assert finish(rows.of(image, orders)) == written(image, "orders", 12)


def test_a_topic_of_many_partitions_is_packed_in_pieces() -> None:
    """Goal: BoundedTurn; the price of all pieces is that of all partitions."""
    image = an_image_of()
    orders = image.topics_by_name["orders"]
    many = replace(orders, partitions=dict.fromkeys(range(1100), ONE))
    image = replace(image, topics_by_name={**image.topics_by_name, "orders": many})
    pieces = MetadataRows().of(image, NONE_IN_DOUBT, LISTENER, 12, NOT_ASKED).of(image, many)
    prices = []
    while True:
        try:
            prices.append(next(pieces))
        except StopIteration as end:
            assert end.value == written(image, "orders", 12)
            break
    assert sum(prices) == 1100 * PARTITION_WORK
    assert max(prices) <= ANSWER_SHARE


def test_the_rows_that_are_kept_are_bounded() -> None:
    kept, image = MetadataRows(), an_image_of()
    oldest = kept.of(image, NONE_IN_DOUBT, LISTENER, 0, NOT_ASKED)
    for version in range(1, MAX_KEPT_ANSWERS):
        kept.of(image, NONE_IN_DOUBT, LISTENER, version, NOT_ASKED)
    assert kept.of(image, NONE_IN_DOUBT, LISTENER, 0, NOT_ASKED) is oldest
    kept.of(image, NONE_IN_DOUBT, LISTENER, MAX_KEPT_ANSWERS, NOT_ASKED)
    assert kept.of(image, NONE_IN_DOUBT, LISTENER, 0, NOT_ASKED) is oldest
    assert len(kept._kept) == MAX_KEPT_ANSWERS
