"""Replies leave in the order of their requests, whatever the order in which they are filled."""

import pytest

from tidelog.broker.api.answers import reply
from tidelog.broker.connections import Connection, Connections, RequestContext
from tidelog.env.effects import Close, EffectQueue, HoldReading, Send
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.errors import MalformedFrame
from tidelog.limits import MAX_IN_FLIGHT_REQUESTS
from tidelog.model import ANONYMOUS
from tidelog.wire.api import ApiKey, RequestHeader

EMPTY = {"brokers": (), "topics": (), "controller_id": 1}


@pytest.fixture
def effects() -> EffectQueue:
    return EffectQueue()


@pytest.fixture
def connections(effects: EffectQueue) -> Connections:
    return Connections(effects, max_request_bytes=1000)


def opened(connections: Connections, connection_id: int = 1) -> Connection:
    connections.on_opened(connection_id, "PLAINTEXT", "peer", Instant(0))
    connection = connections.get(connection_id)
    assert connection is not None
    return connection


def admitted(connections: Connections, connection: Connection, correlation_id: int = 0):
    return connections.admit(
        connection, RequestHeader(ApiKey.METADATA, 9, correlation_id, "client")
    )


def flushed(connections: Connections, effects: EffectQueue) -> list[object]:
    connections.flush()
    connections.check()
    return effects.take()


def test_a_reply_leaves_at_the_flush_and_not_before(connections, effects):
    pending = admitted(connections, opened(connections))
    connections.fill(pending, [b"one"])
    assert effects.take() == []
    assert flushed(connections, effects) == [Send(1, [b"one"])]
    assert flushed(connections, effects) == []


def test_a_filled_slot_waits_for_the_slots_before_it(connections, effects):
    connection = opened(connections)
    first, second, third = (admitted(connections, connection, n) for n in range(3))
    connections.fill(third, [b"3"])
    connections.fill(second, [b"2"])
    assert flushed(connections, effects) == []
    connections.fill(first, [b"1"])
    assert flushed(connections, effects) == [Send(1, [b"1", b"2", b"3"])]


def test_an_empty_reply_takes_its_turn_and_sends_nothing(connections, effects):
    connection = opened(connections)
    silent, loud = admitted(connections, connection), admitted(connections, connection)
    connections.fill(loud, [b"loud"])
    connections.fill(silent, [])
    assert flushed(connections, effects) == [Send(1, [b"loud"])]
    assert not connection.slots


def test_a_request_that_no_component_holds_is_noticed(connections):
    kept = admitted(connections, opened(connections))
    connections.check()
    del kept
    with pytest.raises(AssertionError, match="EveryRequestIsAnsweredOrClosed"):
        connections.check()


def test_no_answer_leaves_before_the_checks(connections):
    pending = admitted(connections, opened(connections))
    pending.unchecked = True
    with pytest.raises(AssertionError, match="AuthorizedFirst"):
        connections.fill(pending, [b"secret"])


def test_every_connection_gets_its_own_send(connections, effects):
    slots = [admitted(connections, opened(connections, n)) for n in (1, 2, 3)]
    connections.fill(slots[2], [b"c"])
    connections.fill(slots[0], [b"a"])
    assert flushed(connections, effects) == [Send(3, [b"c"]), Send(1, [b"a"])]


def test_a_slot_is_filled_once(connections):
    pending = admitted(connections, opened(connections))
    connections.fill(pending, [b"x"])
    with pytest.raises(AssertionError, match="answered twice"):
        connections.fill(pending, [b"y"])


def test_a_reply_to_a_connection_that_is_gone_is_dropped(connections, effects):
    pending = admitted(connections, opened(connections))
    assert connections.on_closed(1) is pending.connection
    connections.fill(pending, [b"late"])
    assert flushed(connections, effects) == []
    assert connections.on_closed(1) is None
    assert len(connections) == 0


def test_a_reply_that_was_ready_is_dropped_with_its_connection(connections, effects):
    pending = admitted(connections, opened(connections))
    connections.fill(pending, [b"ready"])
    connections.on_closed(1)
    assert flushed(connections, effects) == []


def test_an_id_is_never_opened_twice(connections):
    opened(connections)
    with pytest.raises(AssertionError, match="opened twice"):
        opened(connections)


def test_drop_closes_at_once_and_forgets_replies(connections, effects):
    connection = opened(connections)
    connections.fill(admitted(connections, connection), [b"reply"])
    connections.drop(connection)
    connections.drop(connection)
    assert not connection.open
    assert connections.get(1) is None
    assert flushed(connections, effects) == [Close(1)]


def test_a_closing_slot_lets_the_replies_before_it_leave_first(connections, effects):
    connection = opened(connections)
    slow, failed, later = (admitted(connections, connection, n) for n in range(3))
    connections.fill(later, [b"never"])
    failed.fill_and_close()
    assert flushed(connections, effects) == []
    assert connection.open
    connections.fill(slow, [b"slow"])
    assert flushed(connections, effects) == [Send(1, [b"slow"]), Close(1)]
    assert not connection.open


def test_a_closing_slot_of_a_connection_that_is_gone_does_nothing(connections, effects):
    pending = admitted(connections, opened(connections))
    connections.on_closed(1)
    pending.fill_and_close()
    assert flushed(connections, effects) == []


def test_reading_pauses_at_the_bound_and_resumes_at_half_of_it(connections, effects):
    connection = opened(connections)
    slots = [admitted(connections, connection, n) for n in range(MAX_IN_FLIGHT_REQUESTS - 1)]
    assert effects.take() == []
    slots += [admitted(connections, connection) for _ in range(3)]
    assert effects.take() == [HoldReading(1, True)]

    half = MAX_IN_FLIGHT_REQUESTS // 2
    for pending in slots[: half + 1]:
        connections.fill(pending, [b"."])
    assert flushed(connections, effects) == [Send(1, [b"."] * (half + 1))]
    connections.fill(slots[half + 1], [b"."])
    assert flushed(connections, effects) == [Send(1, [b"."]), HoldReading(1, False)]
    for _ in range(half):
        admitted(connections, connection)
    assert effects.take() == [HoldReading(1, True)]


def test_frames_above_the_configured_size_are_refused_by_each_connection(connections):
    with pytest.raises(MalformedFrame):
        opened(connections).frames.feed((1001).to_bytes(4, "big"))


@pytest.mark.parametrize("seed", range(20))
def test_replies_keep_the_order_of_requests_for_any_order_of_fills(seed, connections, effects):
    """RepliesInOrder, as a property: random interleavings of requests, fills and flushes."""
    prng = Prng(seed)
    open_slots: dict[int, list[tuple[bytes, RequestContext]]] = {}
    expected: dict[int, list[bytes]] = {}
    sent: dict[int, list[bytes]] = {}
    lines = [opened(connections, n) for n in (1, 2, 3)]
    for connection in lines:
        open_slots[connection.connection_id] = []
        expected[connection.connection_id] = []
        sent[connection.connection_id] = []
    for number in range(600):
        connection = prng.choice(lines)
        name = connection.connection_id
        if prng.chance(1, 2) or not open_slots[name]:
            label = number.to_bytes(2, "big")
            expected[name].append(label)
            open_slots[name].append((label, admitted(connections, connection, number)))
        else:
            label, pending = open_slots[name].pop(prng.below(len(open_slots[name])))
            connections.fill(pending, [label])
        if prng.chance(1, 5):
            for effect in flushed(connections, effects):
                if isinstance(effect, Send):
                    sent[effect.connection] += effect.chunks
    for name, slots in open_slots.items():
        for label, pending in slots:
            connections.fill(pending, [label])
        assert len(sent[name]) < len(expected[name])
    for effect in flushed(connections, effects):
        if isinstance(effect, Send):
            sent[effect.connection] += effect.chunks
    assert sent == expected


# Idle connections ---------------------------------------------------------------------------


@pytest.fixture
def short(effects: EffectQueue) -> Connections:
    """They may be idle for 100 ms; nodes connect at this listener too."""
    return Connections(effects, max_request_bytes=1000, max_idle_ms=100, of_nodes=["PLAINTEXT"])


def test_who_is_silent_for_too_long_is_closed(short: Connections, effects: EffectQueue) -> None:
    first, second = opened(short, 1), opened(short, 2)
    short.touch(first, Instant(10))
    short.touch(second, Instant(20))
    short.touch(first, Instant(50))
    assert short.idle_deadline() == 120
    short.close_idle(Instant(119))
    assert effects.take() == []
    short.close_idle(Instant(120))
    assert effects.take() == [Close(2)]
    assert (first.open, second.open, short.idle_deadline()) == (True, False, 150)
    short.on_closed(1)
    assert short.idle_deadline() is None


def test_who_waits_for_an_answer_is_not_idle(short: Connections, effects: EffectQueue) -> None:
    connection = opened(short)
    short.touch(connection, Instant(0))
    pending = admitted(short, connection)
    short.close_idle(Instant(100))
    assert connection.open
    assert short.idle_deadline() == 200
    short.fill(pending, [b"answer"])
    short.flush()
    short.close_idle(Instant(200))
    assert not connection.open


def test_a_connection_that_never_asked_anything_stays(
    short: Connections, connections: Connections
) -> None:
    """As the nodes' connections to watch each other; and with a negative time all do."""
    opened(short)
    assert short.idle_deadline() is None
    connections.touch(opened(connections), Instant(0))
    assert connections.idle_deadline() is None


def test_at_a_listener_of_clients_it_is_closed(effects: EffectQueue) -> None:
    """Else a stranger could hold as many as the process has descriptors."""
    connections = Connections(
        effects, max_request_bytes=1000, max_idle_ms=100, of_nodes=["CONTROLLER"]
    )
    silent = opened(connections)
    assert connections.idle_deadline() == 100
    connections.close_idle(Instant(100))
    assert not silent.open


# What clients hold of a node ----------------------------------------------------------------


def fetching(connections: Connections, connection: Connection) -> RequestContext:
    return connections.admit(connection, RequestHeader(ApiKey.FETCH, 12, 1, None))


def test_behind_a_fetch_nothing_is_handled_before_its_answer_has_left(
    connections: Connections,
) -> None:
    connection = opened(connections)
    fetch = fetching(connections, connection)
    assert not connection.has_room
    connections.put_off(connection, [b"next"])
    assert not connections.has_turns
    connections.fill(fetch, [b"records"])
    assert not connection.has_room
    connections.flush()
    assert connection.has_room
    assert connections.take_turns() == [connection]


def test_of_who_does_not_read_nothing_is_handled(connections: Connections) -> None:
    connection = opened(connections)
    connections.put_off(connection, [b"one", b"two"])
    connections.on_stalled(1, True)
    assert not connections.has_turns
    assert not connection.has_room
    connections.check()
    connections.on_stalled(1, False)
    assert connections.take_turns() == [connection]
    connections.on_stalled(99, True)


def test_what_is_held_of_requests_is_counted_until_it_is_handled(connections: Connections) -> None:
    connection = opened(connections)
    connection.frames.feed((500).to_bytes(4) + bytes(96))
    connections.put_off(connection, [b"12345", b"678"])
    connections.hold(connection, moved=False)
    assert connections.held.total_bytes == 108
    (turn,) = connections.take_turns()
    connections.end_turn(turn, 1)
    assert connections.held.total_bytes == 103
    connections.on_closed(1)
    assert connections.held.total_bytes == 0
    connections.check()


def test_a_request_knows_its_listener_and_who_asks(connections):
    context = admitted(connections, opened(connections))
    assert (context.listener, context.principal) == ("PLAINTEXT", ANONYMOUS)


def test_an_answer_with_a_text_that_is_too_long_ends_the_connection(connections, effects):
    """Behind the answers to the requests before it."""
    connection = opened(connections)
    first, second = (admitted(connections, connection, number) for number in range(2))
    second.answer(reply(second.response_type, cluster_id="x" * 40_000, **EMPTY))
    assert flushed(connections, effects) == []
    first.fill([b"1"])
    assert flushed(connections, effects) == [Send(1, [b"1"]), Close(1)]
