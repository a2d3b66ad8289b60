"""Sequences that real clients and tools sent to Apache Kafka 4.3.1, made fit to be sent again.

A recorded request has ids that only its own brokers know: the id and generation of a member, the id
and epoch of a producer, a fetch session, the id of a topic. The client had each of them from an
answer. So a value that stands in an earlier recorded answer becomes a `Ref` to that
place; whatever else the client sent stays as it is. With the recorded answers a step is the
recorded request again, but for names and `replication_factor` (`test_recorded.py`).

    recorded_sequences()["kafka-python"]    # what one client sent, in its order
    recorded_sequences()[ALL_CLIENTS]       # one after another, so that readers find records

Topics that a recording expects to be there are created in front of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from tests.differential.admin_steps import new_topic
from tests.differential.steps import NOTHING, Name, Ref, Step, Way, WrittenBatch
from tests.wire_corpus import Exchange, client_corpus
from tidelog.model import ZERO_UUID
from tidelog.records.batch import read_header
from tidelog.wire import codec
from tidelog.wire.api import ApiKey as K
from tidelog.wire.api import parse_header
from tidelog.wire.entities import plain

ALL_CLIENTS: Final = "all clients"
CREATE_TOPICS_VERSION: Final = 7

GIVEN: Final[Mapping[str, tuple[str, ...]]] = {
    "member_id": ("member_id",),
    "generation_id": ("generation_id",),
    "member_epoch": ("member_epoch",),
    "generation_id_or_member_epoch": ("generation_id", "member_epoch"),
    "producer_id": ("producer_id",),
    "v3_and_below_producer_id": ("producer_id",),
    "producer_epoch": ("producer_epoch",),
    "v3_and_below_producer_epoch": ("producer_epoch",),
    "session_id": ("session_id",),
    "topic_id": ("topic_id",),
}
"""Fields of requests whose values a broker gives, with the fields of its answers."""

NOT_GIVEN: Final = (("session_id", 0), ("topic_id", ZERO_UUID))
"""What answers have where a broker gave nothing, beside `NOTHING`."""

REMEMBERED: Final = 4
"""How many places of a value a step knows; a run may have ended without the newest."""

OF_TOPICS: Final = ("name", "topic", "resource_name", "subscribed_topic_names")
"""Fields of requests that may name a topic."""

OF_GROUPS: Final = (
    *("group_id", "groups", "group_ids", "groups_names", "key", "coordinator_keys"),
    *("transactional_id", "v3_and_below_transactional_id"),
)
"""Fields of requests that name a group or a transactional id."""

Given = Mapping[tuple[str, Any], Way]
"""Where an answer has what a broker gave, by field and value."""


def recorded_sequences() -> dict[str, tuple[Step, ...]]:
    """By client, and one of all clients."""
    clients = recorded_clients()
    each = {name: _sequence([exchanges]) for name, exchanges in clients.items()}
    return {**each, ALL_CLIENTS: _sequence([*clients.values()])}


def recorded_clients() -> dict[str, list[Exchange]]:
    """What each client sent, in its order. All of it can be sent again: what two single brokers do
    not have alike, `comparison.py` leaves out of the answers."""
    clients: dict[str, list[Exchange]] = {}
    for exchange in client_corpus():
        clients.setdefault(exchange.peer, []).append(exchange)
    return clients


@cache
def bodies(exchange: Exchange) -> tuple[dict[str, Any], dict[str, Any]]:
    """The request and the answer as plain values."""
    header, start = parse_header(exchange.request)
    request = codec.decode_request(header, memoryview(exchange.request), start)
    _, answer = codec.decode_response(header.api_key, exchange.version, exchange.response)
    return plain(request), plain(answer)


@cache
def recorded_topics() -> Mapping[str, Mapping[str, Any]]:
    """The topics of the recording by name, as a client last saw them."""
    return {
        row["name"]: row
        for exchange in client_corpus()
        if exchange.api_key == K.METADATA
        for row in bodies(exchange)[1]["topics"]
        if not row["is_internal"] and "topic_id" in row
    }


def created_answer() -> dict[str, Any]:
    """What step 0 would have been answered when it was recorded."""
    return {"topics": [*recorded_topics().values()]}


def _sequence(clients: Sequence[Sequence[Exchange]]) -> tuple[Step, ...]:
    """The steps of some clients, each on a connection of its own. Step 0 creates their topics,
    unless one of them does."""
    creates = any(each.api_key == K.CREATE_TOPICS for exchanges in clients for each in exchanges)
    answered = [] if creates else [(0, _given_in(created_answer()))]
    steps: list[Step] = []
    for slot, exchanges in enumerate(clients):
        for exchange in exchanges:
            request, answer = bodies(exchange)
            number, body = len(steps) + 1, _sent(request, "", answered)
            steps.append(Step(number, slot, exchange.api_key, exchange.version, body))
            answered.insert(0, (number, _given_in(answer)))
    named = {name for step in steps for name in _names(step.body)}
    topics = [
        new_topic(name, num_partitions=len(row["partitions"]))
        for name, row in recorded_topics().items()
        if name in named and not creates
    ]
    if not topics:
        return tuple(steps)
    body = {"topics": topics, "timeout": 30_000, "validate_only": False}
    return (Step(0, 0, int(K.CREATE_TOPICS), CREATE_TOPICS_VERSION, body), *steps)


def _sent(value: Any, field: str, answered: Sequence[tuple[int, Given]]) -> Any:
    """What a step has for a value of a recorded request."""
    if isinstance(value, Mapping):
        return {name: _sent(each, name, answered) for name, each in value.items()}
    if isinstance(value, list):
        return [_sent(each, field, answered) for each in value]
    if field == "records":
        return _batch(bytes(value), answered)
    if field in GIVEN:
        keys = [(name, value) for name in GIVEN[field]]
        places = [
            (number, given[key]) for number, given in answered for key in keys if key in given
        ]
        # A row that has a name is found in any order.
        places.sort(key=lambda place: not any(isinstance(part, Name) for part in place[1]))
        return Ref(tuple(places[:REMEMBERED]), value) if places else value
    if field == "replication_factor":
        # There is one broker of each kind.
        return 1
    is_name = field in OF_GROUPS if value not in recorded_topics() else field in OF_TOPICS
    return Name(value) if is_name and value is not None else value


def _batch(data: bytes, answered: Sequence[tuple[int, Given]]) -> Any:
    header = read_header(data)
    assert header.size_bytes == len(data), "clients send one batch to a partition"
    producer = (
        _sent(getattr(header, field), field, answered)
        for field in ("producer_id", "producer_epoch")
    )
    return data if header.producer_id < 0 else WrittenBatch(data, *producer)


def _given_in(answer: Mapping[str, Any]) -> Given:
    """Of equal values the first counts."""
    return dict(reversed([*_given(answer, "", ())]))


def _given(answer: Any, field: str, way: Way) -> Iterator[tuple[tuple[str, Any], Way]]:
    if isinstance(answer, Mapping):
        for name, each in answer.items():
            yield from _given(each, name, (*way, name))
    elif isinstance(answer, list):
        for index, row in enumerate(answer):
            # Each broker has an order of its own for topics.
            name = row.get("name") if isinstance(row, Mapping) else None
            part = Name(name) if name in recorded_topics() else index
            yield from _given(row, field, (*way, part))
    elif field in GIVEN and (field, answer) not in NOT_GIVEN and answer not in NOTHING:
        yield (field, answer), way


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, Name):
        yield value.text
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _names(each)
    elif isinstance(value, list):
        for each in value:
            yield from _names(each)
