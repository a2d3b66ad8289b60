"""Goal: a table is right in both directions. Method: values of every kind of place, written into
real entities and read from them."""

from dataclasses import dataclass
from typing import NamedTuple

import pytest

from tidelog.broker.api import k20_delete_topics, k43_elect_leaders
from tidelog.broker.api.answers import reply
from tidelog.controller.messages import ElectionResult, ElectLeadersResult
from tidelog.controller.topic_messages import DeletedTopic, DeleteTopicsResult
from tidelog.errors import ErrorCode
from tidelog.log.pieces import finish
from tidelog.model import ZERO_UUID, TopicId, Uuid
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make
from tidelog.wire.schema import write_entity
from tidelog.wire.shapes import Place, Rows, Shape, tuples

ID_A, ID_B = Uuid(b"a" * 16), Uuid(b"b" * 16)


class Row(NamedTuple):
    topic_id: Uuid
    partition: int
    directory_id: Uuid
    error_code: ErrorCode


@dataclass(frozen=True)
class Rack:
    broker_id: int
    rack: str = "none"


ROWS = Rows("directories.topics.partitions", Shape(Row, directory_id="id_"), by=["id_", "topic_id"])
ANSWER = codec.response_class(ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0)


def answer(**values):
    return make(ANSWER, throttle_time=0, error_code=ErrorCode.NONE, **values)


def written(entity):
    out = bytearray()
    write_entity(out, entity)
    return bytes(out)


def test_rows_are_grouped_in_the_order_of_their_first_ones():
    rows = (
        Row(ID_A, 0, ID_B, ErrorCode.NONE),
        Row(ID_B, 1, ZERO_UUID, ErrorCode.REQUEST_TIMED_OUT),
        Row(ID_A, 2, ID_B, ErrorCode.NONE),
    )
    entity = answer(**ROWS.write(rows))
    first, second = entity.directories
    assert [p.partition_index for t in first.topics for p in t.partitions] == [0, 2]
    assert second.id_ is None
    assert ROWS.read(entity) == (rows[0], rows[2], rows[1])


@pytest.mark.parametrize("count", [0, 1, 7])
def test_rows_that_are_encoded_one_by_one_are_the_same(count):
    """Goal: a long answer in pieces; in two arrays around the rows, in one, and in none."""
    rows = tuple(Row((ID_A, ID_B)[n % 2], n, ID_B, ErrorCode.NONE) for n in range(count))
    wrote = finish(ROWS.write_encoded(ANSWER, rows, 5))
    assert written(answer(**wrote)) == written(answer(**ROWS.write(rows)))
    elected = ElectLeadersResult(
        tuple(ElectionResult(f"t{n % 3}", n, ErrorCode.NONE, None) for n in range(count))
    )
    deleted = DeleteTopicsResult(
        tuple(DeletedTopic(f"t{n}", TopicId(ID_A), ErrorCode.NONE) for n in range(count))
    )
    for api, value in ((k43_elect_leaders.API, elected), (k20_delete_topics.API, deleted)):
        entity_type, shape = codec.response_class(api.key, api.versions[1]), api.result.shape
        assert shape.count_rows(value) == count
        in_pieces = finish(shape.write_encoded(entity_type, value, 5))
        assert written(reply(entity_type, **in_pieces)) == written(
            reply(entity_type, **shape.write(value))
        )


def test_a_path_has_a_field_for_each_level():
    with pytest.raises(AssertionError, match=r"topics\.partitions by"):
        Rows("topics.partitions", Shape(Row))


def test_a_field_that_a_version_does_not_have_keeps_its_default():
    request = make(codec.request_class(ApiKey.UNREGISTER_BROKER, 0), broker_id=3)
    assert Shape(Rack).read(request) == Rack(3, "none")


def test_a_place_with_rules_of_its_own():
    shape = Shape(Rack, rack=Place(lambda entity: f"r{entity.broker_id}"), fixed={"timeout": 5})
    request = make(codec.request_class(ApiKey.UNREGISTER_BROKER, 0), broker_id=3)
    assert shape.read(request) == Rack(3, "r3")
    assert shape.write(Rack(4, "r4")) == {"broker_id": 4, "timeout": 5}


def test_a_place_of_nothing_is_refused():
    with pytest.raises(AssertionError, match="Rack has no"):
        Shape(Rack, shelf="broker_id")


@pytest.mark.parametrize("value", [None, (("t", (0, 2)), ("u", ()))])
def test_plain_tuples(value):
    place = tuples("topics", "name", "partition_indexes")
    request_type = codec.request_class(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
    entity = make(request_type, timeout=1000, **place.write(value))
    assert place.read(entity) == value
    assert entity == make(request_type, timeout=entity.timeout, topics=entity.topics)


def test_values_of_a_single_field():
    place = tuples("assignments", "broker_ids")
    written = place.write(((1, 2), (3,)))
    assert written == {"assignments": [{"broker_ids": (1, 2)}, {"broker_ids": (3,)}]}
