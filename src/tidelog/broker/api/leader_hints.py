"""Who leads instead: what Produce and Fetch add to an answer that the client's leader is wrong."""

from collections.abc import Container, Sequence
from typing import TypeVar

from tidelog.errors import ErrorCode
from tidelog.metadata.image import MetadataImage
from tidelog.model import NO_EPOCH, NO_LEADER, Endpoint
from tidelog.wire.fetch import FetchedPartition, LeaderHint
from tidelog.wire.produce import ProducedPartition

Answer = TypeVar("Answer", FetchedPartition, ProducedPartition)


def with_leaders(
    image: MetadataImage, answers: Sequence[Answer], stale: Container[ErrorCode]
) -> tuple[list[Answer], set[int]]:
    """The answers, and the leaders that they name: an answer with a code that the client was wrong
    about the leader names the leader, if there is one (KIP-951)."""
    named: set[int] = set()
    found: list[Answer] = []
    for answer in answers:
        if answer.error_code in stale:
            hint = leader_hint(image, answer.topic, answer.partition)
            if hint.leader_id != NO_LEADER:
                named.add(hint.leader_id)
                answer = answer._replace(current_leader=hint)
        found.append(answer)
    return found, named


def leader_hint(image: MetadataImage, topic: str, partition: int) -> LeaderHint:
    """Who leads a partition according to the image."""
    found = image.topics_by_name.get(topic)
    known = None if found is None else found.partitions.get(partition)
    if known is None:
        return LeaderHint(NO_LEADER, NO_EPOCH)
    return LeaderHint(known.leader, known.leader_epoch)


def node_endpoints(
    image: MetadataImage, node_ids: set[int], listener: str
) -> list[tuple[int, Endpoint, str | None]]:
    """(node id, endpoint, rack) of those brokers that are alive and have this listener."""
    return [row for row in image.alive_brokers(listener) if row[0] in node_ids]
