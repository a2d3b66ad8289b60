"""Goal: an answer about many things takes short turns, and a small one does not wait for it."""

from collections.abc import Iterator
from typing import Any

from tests.unit.broker.one_node import OneNode, Wire
from tests.unit.broker.test_turns import tick
from tidelog.broker.connections import Connections, RequestContext
from tidelog.broker.long_answers import LongAnswers
from tidelog.env.effects import EffectQueue, Received
from tidelog.env.instant import Instant
from tidelog.env.steps import Steps
from tidelog.errors import UnwritableText
from tidelog.limits import ANSWER_SHARE, ANSWER_WORK_PER_TURN, PARTITION_ANSWER_WORK
from tidelog.wire import codec
from tidelog.wire.api import ApiKey, RequestHeader
from tidelog.wire.entities import make
from tidelog.wire.values import millis

NOW = Instant(1)
UNWRITABLE = -1
PER_TURN = ANSWER_WORK_PER_TURN // PARTITION_ANSWER_WORK


class Asked:
    """Requests on a connection each, whose answers take so many pieces."""

    def __init__(self) -> None:
        self.answers = LongAnswers(Steps())
        self.connections = Connections(EffectQueue(), 1000)
        # By request: the pieces that were done, and in which order.
        self.done: list[str] = []

    def ask(self, name: str, pieces: int, price: int) -> RequestContext:
        connection_id = len(self.connections) + 1
        self.connections.on_opened(connection_id, "PLAINTEXT", "h", Instant(0))
        connection = self.connections.get(connection_id)
        assert connection is not None
        context = self.connections.admit(connection, RequestHeader(ApiKey.LIST_OFFSETS, 7, 1, None))
        self.answers.begin(context, name, self._work(name, context, pieces, price))
        return context

    def _work(self, name: str, context: RequestContext, pieces: int, price: int) -> Iterator[int]:
        for _ in range(pieces):
            self.done.append(name)
            if price == UNWRITABLE:
                raise UnwritableText("a text that is too long")
            yield price
        context.fill([b"done"])

    def turn(self) -> int:
        """A tick; how many pieces it did."""
        before = len(self.done)
        self.answers.wake(NOW)
        self.answers.check()
        return len(self.done) - before


def test_a_small_answer_is_complete_in_the_turn_of_its_request() -> None:
    asked = Asked()
    assert asked.ask("small", 3, 10).answered
    assert asked.answers.deadline() is None


def test_a_long_answer_goes_on_in_turns_that_follow_at_once() -> None:
    asked = Asked()
    context = asked.ask("long", 1000, 10)
    # Its own turn has one share for it, and what is left of the turn.
    assert len(asked.done) == ANSWER_SHARE // 10
    assert asked.turn() + ANSWER_SHARE // 10 == ANSWER_WORK_PER_TURN // 10
    turns = 1
    while not context.answered:
        assert asked.answers.deadline() == NOW
        assert asked.turn() <= ANSWER_WORK_PER_TURN // 10
        turns += 1
    assert turns == 10_000 // ANSWER_WORK_PER_TURN + 1
    assert asked.answers.deadline() is None


def test_a_small_answer_does_not_wait_behind_a_long_one() -> None:
    asked = Asked()
    long = asked.ask("long", 10_000, 10)
    small = asked.ask("small", 3, 10)
    asked.turn()
    assert small.answered and not long.answered


def test_a_piece_that_costs_more_than_a_turn_is_the_only_one_of_it() -> None:
    asked = Asked()
    asked.ask("huge", 3, 3 * ANSWER_WORK_PER_TURN)
    assert len(asked.done) == 1
    assert [asked.turn() for _ in range(4)] == [0, 1, 1, 0]


def test_an_answer_whose_client_has_gone_is_given_up() -> None:
    asked = Asked()
    context = asked.ask("long", 10_000, 10)
    asked.connections.on_closed(context.connection.connection_id)
    assert asked.turn() == 0
    assert asked.answers.deadline() is None


def list_offsets_frame(partitions: int) -> bytes:
    rows = [
        {"partition_index": number, "current_leader_epoch": -1, "timestamp": -1}
        for number in range(partitions)
    ]
    entity = make(
        codec.request_class(ApiKey.LIST_OFFSETS, 7),
        replica_id=-1,
        isolation_level=0,
        timeout=millis(1000),
        topics=[{"name": "t", "partitions": rows}],
    )
    return codec.encode_request(entity, 1, "many")


def answers_of(wire: Wire) -> list[Any]:
    return [
        codec.decode_response(ApiKey.LIST_OFFSETS, 7, frame)[1].topics[0].partitions
        for frame in wire.frames()
    ]


def test_a_node_answers_others_while_it_builds_a_long_answer() -> None:
    """And no turn of it looks at more partitions than the bound."""
    node = OneNode()
    many, few = node.client(), node.client()
    node.node.receive(Received(many.connection_id, list_offsets_frame(5 * PER_TURN - 10)), node.now)
    node.node.receive(Received(few.connection_id, list_offsets_frame(2)), node.now)
    tick(node)
    assert [len(rows) for rows in answers_of(few)] == [2]
    assert not answers_of(many)
    for _ in range(4):
        assert node.node.deadline() == node.now
        tick(node)
    (rows,) = answers_of(many)
    assert [row.partition_index for row in rows] == [*range(5 * PER_TURN - 10)]


def test_an_answer_that_cannot_be_written_ends_its_connection() -> None:
    """At once or in a later turn, and no other one."""
    asked = Asked()
    first = asked.ask("bad", 1, UNWRITABLE)
    others = asked.ask("others", 10_000, 10)
    second = asked.ask("bad", 1, UNWRITABLE)
    asked.turn()
    asked.connections.flush()
    assert [each.connection.open for each in (first, others, second)] == [False, True, False]
