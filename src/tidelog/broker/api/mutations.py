"""How many partitions a request creates or deletes, and what its client's quota makes of that.

Topics are counted one by one, in their order, before the controller decides them. One that exists
already, or that there is none of, costs nothing: the controller refuses it anyway. Versions whose
clients know THROTTLING_QUOTA_EXCEEDED get it for each topic that comes while there is a debt; of
the older ones all is done, and they wait afterwards.

Source: KIP-599.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from tidelog.broker.api.checks import Asked
from tidelog.broker.api.mirroring import mirrored
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.metadata.image import MetadataImage
from tidelog.security.client_quotas import Limit
from tidelog.security.quota_meters import TokenBucket
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import extended, field, nested

SENTENCE: Final = "The throttling quota has been exceeded."


class _Kind(NamedTuple):
    """One of the APIs."""

    strict_from: int
    """The first version that knows the error."""
    answers: str
    """The array of the answer."""
    cost: Callable[[Any, str | None, MetadataImage, int], int]
    """From a row, the name of its topic, the metadata and the usual number of partitions."""


def _created(row: Any, name: str | None, image: MetadataImage, usual: int) -> int:
    if name is None or image.topic(name) is not None:
        return 0
    return len(row.assignments) or (row.num_partitions if row.num_partitions > 0 else usual)


def _deleted(row: Any, name: str | None, image: MetadataImage, usual: int) -> int:
    topic = None if name is None else image.topic(name)
    return 0 if topic is None else len(topic.partitions)


def _added(row: Any, name: str | None, image: MetadataImage, usual: int) -> int:
    topic = None if name is None else image.topic(name)
    return 0 if topic is None else max(0, row.count - len(topic.partitions))


_KINDS: Final = {
    ApiKey.CREATE_TOPICS: _Kind(6, "topics", _created),
    ApiKey.DELETE_TOPICS: _Kind(5, "responses", _deleted),
    ApiKey.CREATE_PARTITIONS: _Kind(3, "results", _added),
}


def counts_mutations(key: ApiKey) -> bool:
    """Whether it is one of the APIs with a quota of mutations."""
    return key in _KINDS


def charge(
    key: ApiKey, version: int, asked: Asked, limit: Limit[TokenBucket], usual: int, now: Instant
) -> int:
    """Takes the topics beyond the quota out of a request; returns for how many ms its client must
    wait. `usual` is the number of partitions of a topic that names none."""
    kind = _KINDS[key]
    strict = version >= kind.strict_from
    pause_ms = 0
    for array in ("topics", "topic_names"):
        kept: list[Any] = []
        refused: list[Any] = []
        for row in field(asked.request, array, ()):
            cost = kind.cost(row, asked.name_of(row, "name"), asked.image, usual)
            pause = limit.meter.take(cost, limit.bound, now, strict=strict) if cost else 0
            pause_ms = max(pause_ms, pause)
            (refused if strict and pause else kept).append(row)
        if refused:
            asked.request = replace(asked.request, **{array: tuple(kept)})
            _refuse(asked, kind.answers, refused)
    return pause_ms


def _refuse(asked: Asked, array: str, refused: list[Any]) -> None:
    """Puts these topics into the answer."""
    row_type, code = nested(asked.response_type, array), ErrorCode.THROTTLING_QUOTA_EXCEEDED
    rows = tuple(mirrored(row_type, row, code, message=SENTENCE) for row in refused)
    asked.amendments.append(lambda _, answer: extended(answer, array, rows))
