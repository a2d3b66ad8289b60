"""One client cannot keep a node from its other work: requests are handled in turns."""

from itertools import chain

from tests.unit.broker.api.test_k00_produce import request_of
from tests.unit.broker.one_node import OneNode, Wire
from tidelog.env.effects import HoldReading, Received, Send, Stalled
from tidelog.limits import (
    DECODED_KILOBYTE_WORK,
    FIRST_FETCHED_BYTES,
    FIRST_RECORDS_WORK,
    MAX_FETCHED_BYTES,
    MAX_IN_FLIGHT_REQUESTS,
    MAX_REQUESTS_PER_TURN,
    MAX_TURNS_PER_TICK,
    REPLICA_WORK_PER_TURN,
    SHARED_FETCHED_BYTES,
)
from tidelog.log.validation import WHOLE
from tidelog.model import ZERO_TOPIC_ID
from tidelog.records.batch import build_batch
from tidelog.records.compression import Codec
from tidelog.records.record import Record
from tidelog.wire import codec, fetch
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make
from tidelog.wire.fetch import FetchPartition, FetchRequest
from tidelog.wire.values import millis


def hello(correlation_id: int) -> bytes:
    return codec.encode_request(
        make(codec.request_class(ApiKey.API_VERSIONS, 0)), correlation_id, "flood"
    )


def hellos(count: int) -> bytes:
    return b"".join(map(hello, range(count)))


def topic_creation(correlation_id: int) -> bytes:
    """A request that is answered in a later tick, when the metadata log has it."""
    request_type = codec.request_class(ApiKey.CREATE_TOPICS, 7)
    topic = {
        "name": f"topic{correlation_id}",
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": (),
        "configs": (),
    }
    entity = make(request_type, topics=(topic,), timeout=millis(1000), validate_only=False)
    return codec.encode_request(entity, correlation_id, "flood")


def correlation_ids(wire: Wire) -> list[int]:
    return [int.from_bytes(frame[:4], "big") for frame in wire.frames()]


def tick(node: OneNode) -> int:
    """One tick; returns how many connections got replies."""
    node.node.wake(node.now)
    effects = node.node.take_effects()
    node.node.check()
    for effect in effects:
        node.carry_out(effect)
    return sum(isinstance(effect, Send) for effect in effects)


def test_requests_behind_a_turn_are_handled_in_the_ticks_that_follow_at_once():
    node = OneNode()
    flood = node.client()
    node.node.receive(
        Received(flood.connection_id, hellos(3 * MAX_REQUESTS_PER_TURN + 1)), node.now
    )
    answered = []
    while node.node.deadline() <= node.now or not answered:
        tick(node)
        answered.append(correlation_ids(flood))
    turn = MAX_REQUESTS_PER_TURN
    # The tick of the read has the read's own turn and a first one of the rest.
    assert [len(ids) for ids in answered] == [2 * turn, turn, 1]
    assert list(chain.from_iterable(answered)) == list(range(3 * turn + 1))


def test_nothing_more_is_read_until_what_was_read_is_handled():
    node = OneNode()
    flood = node.client()
    node.node.receive(Received(flood.connection_id, hellos(5 * MAX_REQUESTS_PER_TURN)), node.now)
    seen = []
    for _ in range(10):
        node.node.wake(node.now)
        seen += [e for e in node.node.take_effects() if not isinstance(e, Send)]
    flooding = flood.connection_id
    assert seen == [HoldReading(flooding, True), HoldReading(flooding, False)]


def test_bytes_that_arrive_during_a_pause_keep_their_place():
    node = OneNode()
    flood = node.client()
    first = hellos(4 * MAX_REQUESTS_PER_TURN)
    node.node.receive(Received(flood.connection_id, first), node.now)
    node.node.receive(Received(flood.connection_id, hello(9999)), node.now)
    node.settle()
    assert correlation_ids(flood) == [*range(4 * MAX_REQUESTS_PER_TURN), 9999]


def test_another_client_is_answered_in_the_tick_of_its_request():
    node = OneNode()
    flood, patient = node.client(), node.client()
    node.node.receive(Received(flood.connection_id, hellos(10 * MAX_REQUESTS_PER_TURN)), node.now)
    tick(node)
    node.node.receive(Received(patient.connection_id, hello(1)), node.now)
    tick(node)
    assert correlation_ids(patient) == [1]
    assert len(correlation_ids(flood)) == 3 * MAX_REQUESTS_PER_TURN


def test_a_tick_has_a_bounded_number_of_turns_and_all_connections_come_round():
    node = OneNode()
    floods = [node.client() for _ in range(2 * MAX_TURNS_PER_TICK)]
    for flood in floods:
        event = Received(flood.connection_id, hellos(4 * MAX_REQUESTS_PER_TURN))
        node.node.receive(event, node.now)
    assert tick(node) == len(floods)
    for flood in floods:
        flood.frames()
    for half in (1, 0):
        assert tick(node) == MAX_TURNS_PER_TICK
        assert [bool(flood.frames()) for flood in floods] == (
            [not half] * MAX_TURNS_PER_TICK + [bool(half)] * MAX_TURNS_PER_TICK
        )


def test_no_connection_has_more_open_requests_than_the_bound():
    node = OneNode()
    flood = node.client()
    count = MAX_IN_FLIGHT_REQUESTS + 50
    frames = b"".join(map(topic_creation, range(count)))
    node.node.receive(Received(flood.connection_id, frames), node.now)
    node.settle()
    assert correlation_ids(flood) == list(range(count))


def test_a_connection_that_closes_takes_what_is_left_over_with_it():
    node = OneNode()
    flood = node.client()
    bad = (2).to_bytes(4, "big") + b"??"
    node.node.receive(
        Received(flood.connection_id, hellos(MAX_REQUESTS_PER_TURN) + bad + hellos(100)), node.now
    )
    node.settle()
    assert flood.closed
    assert node.node.deadline() > node.now


def first_records(wire: Wire, partitions: range) -> bytes:
    """A request for each, all in one read."""
    return b"".join(
        codec.encode_request(request_of(wire, 9, partition=number, acks=1), number, "flood")
        for number in partitions
    )


def test_requests_that_make_files_end_the_turn_of_their_connection():
    """However few they are, and in how many reads they come. Others are not kept waiting."""
    node = OneNode()
    count = REPLICA_WORK_PER_TURN // FIRST_RECORDS_WORK
    node.client().create_topic("t", partitions=3 * count)
    node.run_until(lambda: not node.broker.replicas.is_behind)
    flood, patient = node.client(), node.client()
    requests = first_records(flood, range(2 * count + 1))
    for half in (requests[: len(requests) // 2], requests[len(requests) // 2 :]):
        node.node.receive(Received(flood.connection_id, half), node.now)
    node.node.receive(Received(patient.connection_id, hellos(MAX_REQUESTS_PER_TURN)), node.now)
    tick(node)
    assert len(correlation_ids(patient)) == MAX_REQUESTS_PER_TURN
    # The tick gives it a turn, which ends with the first request.
    answered = [correlation_ids(flood)]
    assert answered == [list(range(count + 1))]
    tick(node)
    assert correlation_ids(flood) == list(range(count + 1, 2 * count + 1))


def test_of_batches_that_take_long_to_look_into_a_turn_has_one():
    """However many clients send them; the requests of others are answered in between."""
    node = OneNode()
    node.client().create_topic("t", cleanup_policy="compact")
    node.run_until(lambda: not node.broker.replicas.is_behind)
    packers, patient = [node.client() for _ in range(3)], node.client()
    # Several of those that are looked into at once would do it too.
    node.broker.inspections.at_once = WHOLE
    records = [Record(1, b"k", b"")] * (REPLICA_WORK_PER_TURN + 1)
    request = request_of(patient, 9, records=build_batch(records, codec=Codec.ZSTD), acks=1)
    for packer in packers:
        packer.send(codec.encode_request(request, 0, "flood"))
        assert correlation_ids(packer) == [0]
    for packer in packers:
        data = b"".join(codec.encode_request(request, number, "flood") for number in (1, 2))
        node.node.receive(Received(packer.connection_id, data), node.now)
    for number in (1, 2):
        for other in range(len(packers)):
            node.node.receive(Received(patient.connection_id, hello(other)), node.now)
            tick(node)
            assert correlation_ids(patient) == [other]
            answered = [correlation_ids(packer) for packer in packers]
            assert answered == [[number] if each == other else [] for each in range(len(packers))]
    assert node.node.deadline() > node.now


def test_requests_that_never_end_are_bounded_for_all_clients_together():
    """The connection goes whose request is under way for longest; who sends whole ones stays."""
    node = OneNode(queued_max_request_bytes="100000", socket_request_max_bytes="100000")
    slow, slower, honest = (node.client() for _ in range(3))
    begin = (90_000).to_bytes(4)
    for wire in (slower, slow):
        wire.send(begin + bytes(45_000))
    slower.send(bytes(1000))
    honest.send(hello(1) + begin + bytes(20_000))
    assert (slower.closed, slow.closed, honest.closed) == (True, False, False)
    assert correlation_ids(honest) == [1]
    assert node.broker.connections.held.total_bytes == 65_008


def wanted_by(replica_id: int, count: int = 1) -> bytes:
    """So many fetches of all of `large`."""
    wanted = FetchPartition("large", ZERO_TOPIC_ID, 0, -1, 0, -1, -1, 1 << 30)
    asked = FetchRequest(replica_id, -1, 0, 1, 1 << 30, 0, 0, -1, [wanted], [])
    return fetch.pack_request(11, 7, "reader", asked) * count


def have_large(node: OneNode, batch_bytes: int, batches: int) -> None:
    """The topic `large` with so many batches."""
    wire = node.client()
    wire.create_topic("large")
    records = build_batch([Record(1, None, bytes(batch_bytes))])
    for number in range(batches):
        request = request_of(wire, 9, topic="large", records=records)
        wire.send(codec.encode_request(request, number, "writer"))
        assert correlation_ids(wire) == [number]


def test_a_broker_does_not_wait_for_what_clients_fetch():
    """Records are acknowledged when followers have fetched them. Method: more clients than the work
    of a turn is enough for come before the broker."""
    node = OneNode()
    have_large(node, 900_000, 4)
    readers = [node.client() for _ in range(20)]
    broker = node.client(node.broker.config.inter_broker_listener_name)
    for wire in readers:
        node.node.receive(Received(wire.connection_id, wanted_by(-1)), node.now)
    assert node.broker.replicas.work.is_spent
    connection = node.broker.connections.get(broker.connection_id)
    assert connection is not None
    connection.broker_id = 2
    node.node.receive(Received(broker.connection_id, wanted_by(2)), node.now)
    tick(node)
    assert len(broker.frames()) == 1
    served = sum(bool(wire.frames()) for wire in readers)
    assert 0 < served < len(readers)
    while served < len(readers):
        tick(node)
        served += sum(bool(wire.frames()) for wire in readers)


def test_a_fetch_waits_for_one_turn_behind_a_request_that_takes_long_to_decode():
    """The work of that turn is spent, and the next one has its own, though no replica stirs."""
    node = OneNode()
    have_large(node, 1000, 1)
    wire = node.client()
    name = "x" * (1024 * (REPLICA_WORK_PER_TURN // DECODED_KILOBYTE_WORK + 1))
    asked = codec.encode_request(
        make(codec.request_class(ApiKey.LIST_GROUPS, 4), states_filter=(name,)), 1, "asker"
    )
    node.node.receive(Received(wire.connection_id, asked + wanted_by(-1)), node.now)
    assert node.broker.replicas.work.is_spent
    answered = []
    while sum(answered) < 2 and len(answered) < 3:
        tick(node)
        answered.append(len(wire.frames()))
    assert answered == [1, 1]


def test_the_first_answers_on_a_connection_have_few_records():
    """A client that reads nothing takes one or two of them; who reads on has whole ones soon."""
    node = OneNode()
    have_large(node, 60_000, 50)
    wire, sizes = node.client(), []
    for _ in range(5):
        wire.send(wanted_by(-1))
        sizes += map(len, wire.frames())
    for size, most in zip(sizes, (1, 2, 4, 8, 8), strict=True):
        most_bytes = min(most * FIRST_FETCHED_BYTES, MAX_FETCHED_BYTES)
        assert most_bytes - 61_000 < size < most_bytes + 1000


def test_answers_are_smaller_while_many_wait():
    """One turn has one or two of them, so that who sends a record does not wait for megabytes."""
    node = OneNode()
    have_large(node, 60_000, 50)
    readers = [node.client() for _ in range(MAX_TURNS_PER_TICK + 4)]
    for wire in readers:
        for _ in range(4):
            wire.send(wanted_by(-1))
        assert len(wire.frames()) == 4
    for wire in readers:
        node.node.receive(Received(wire.connection_id, wanted_by(-1)), node.now)
    sizes: list[list[int]] = []
    while sum(map(len, sizes)) < len(readers):
        tick(node)
        sizes.append([len(frame) for wire in readers for frame in wire.frames()])
    in_order = [size for turn in sizes for size in turn]
    is_shared = [size <= SHARED_FETCHED_BYTES + 1000 for size in in_order]
    assert is_shared[:3] == [True] * 3
    # In the end few are left.
    assert not is_shared[-1] and in_order[-1] > MAX_FETCHED_BYTES - 61_000
    assert max(map(len, sizes)) <= 2


def test_a_client_that_does_not_read_makes_the_node_read_one_answer():
    """However many fetches it sends at once; the next one is for when it has taken that."""
    node = OneNode()
    have_large(node, 900_000, 4)
    wire = node.client()
    node.node.receive(Received(wire.connection_id, wanted_by(-1, 50)), node.now)
    tick(node)
    assert 900_000 < len(node.sent[wire.connection_id]) < MAX_FETCHED_BYTES
    node.receive(Stalled(wire.connection_id, True))
    assert len(wire.frames()) == 1
    node.receive(Stalled(wire.connection_id, False))
    assert len(wire.frames()) == 49


def test_who_is_closed_in_its_turn_holds_nothing():
    """Else it would be chosen, and is not there, when others hold too much."""
    node = OneNode(queued_max_request_bytes="100000", socket_request_max_bytes="100000")
    wire = node.client()
    wire.send((4).to_bytes(4) + bytes.fromhex("00ff00ff") + (90_000).to_bytes(4) + bytes(45_000))
    assert wire.closed
    assert node.broker.connections.held.total_bytes == 0
