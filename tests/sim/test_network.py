"""Streams: what arrives, in what order, and what a fault does to it."""

import pytest

from tidelog.env.effects import CloseReason
from tidelog.env.prng import Prng
from tidelog.sim.engine.network import Network, Pipe
from tidelog.sim.engine.timeline import Timeline


class Box:
    """A machine that keeps what it gets."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ends: dict[int, Pipe] = {}
        self.powered = True
        self.listening = True
        self.got: dict[int, bytes] = {}
        self.closed: dict[int, CloseReason] = {}
        self.opened: list[int] = []

    def new_connection_id(self) -> int:
        return 100 + len(self.opened)

    def on_opened(self, connection_id: int, peer: str, port: int) -> None:
        self.opened.append(connection_id)

    def on_bytes(self, connection_id: int, data: bytes) -> None:
        self.got[connection_id] = self.got.get(connection_id, b"") + data

    def on_closed(self, connection_id: int, reason: CloseReason) -> None:
        self.closed[connection_id] = reason


class Net:
    """Two machines and a clock."""

    def __init__(self, seed: int = 1) -> None:
        self.timeline = Timeline(Prng(seed))
        self.network = Network(self.timeline, Prng(seed))
        self.a, self.b = Box("a"), Box("b")
        self.network.machines = {"a": self.a, "b": self.b}
        self.answers: list[bool] = []
        self.wanted = True

    def run(self, until: int = 1_000_000) -> None:
        while (at := self.timeline.next_at) is not None and at <= until:
            self.timeline.run_for(at - self.timeline.now)

    def connect(self) -> None:
        self.network.connect(("a", 1), ("b", 9092), lambda: self.wanted, self.answers.append)

    def connected(self) -> "Net":
        self.connect()
        self.run()
        assert self.answers == [True]
        return self


@pytest.mark.parametrize("seed", range(20))
def test_bytes_arrive_once_and_in_order_however_they_are_split_and_delayed(seed):
    net = Net(seed).connected()
    net.network.split_percent = 50
    net.network.delays["a", "b"] = (0, 3)
    sent = [bytes((index,)) * (1 + index % 7) for index in range(100)]
    for data in sent:
        net.network.send(net.a.ends[1], data)
    net.network.close(net.a.ends[1])
    net.run()
    assert net.b.got[100] == b"".join(sent)
    assert net.b.closed == {100: CloseReason.PEER}


def test_a_cut_keeps_back_and_healing_delivers_in_order():
    net = Net().connected()
    net.network.cut("a", "b")
    for data in (b"1", b"2", b"3"):
        net.network.send(net.a.ends[1], data)
    net.network.send(net.b.ends[100], b"back")
    net.run()
    assert (net.b.got, net.a.got) == ({}, {1: b"back"})
    net.network.heal("a", "b")
    assert net.b.got == {100: b"123"}


def test_a_close_waits_behind_the_cut_too():
    net = Net().connected()
    net.network.cut("a", "b")
    net.network.send(net.a.ends[1], b"the last bytes")
    net.network.close(net.a.ends[1])
    net.run()
    assert net.b.closed == {}
    net.network.heal("a", "b")
    assert (net.b.got, net.b.closed) == ({100: b"the last bytes"}, {100: CloseReason.PEER})


def test_a_reset_loses_what_is_under_way():
    net = Net().connected()
    net.network.delays["a", "b"] = (50, 50)
    net.network.send(net.a.ends[1], b"half a fra")
    net.run(until=net.timeline.now + 10)
    net.network.reset(net.a.ends[1])
    net.run()
    assert (net.b.got, net.b.closed) == ({}, {100: CloseReason.ERROR})


def test_a_connect_is_refused_without_a_process():
    net = Net()
    net.b.listening = False
    net.connect()
    net.run()
    assert net.answers == [False]


@pytest.mark.parametrize("link", [("a", "b"), ("b", "a")])
def test_a_connect_over_a_cut_waits_and_tries_again(link):
    net = Net()
    net.network.cut(*link)
    net.connect()
    net.run(until=500)
    assert net.answers == []
    net.network.heal(*link)
    net.run(until=2_000)
    assert net.answers == [True]


def test_a_connect_over_a_cut_ends_in_silence():
    net = Net()
    net.network.cut("a", "b")
    net.connect()
    net.run()
    assert net.answers == []


def test_a_connect_that_was_given_up_is_not_made():
    net = Net()
    net.connect()
    net.wanted = False
    net.run()
    assert (net.answers, net.b.opened) == ([], [])


def test_a_machine_that_vanished_leaves_half_a_stream_until_it_is_back():
    net = Net().connected()
    net.b.powered = False
    net.b.ends.clear()
    net.network.send(net.a.ends[1], b"hello?")
    net.run()
    assert net.a.closed == {}
    net.b.powered = True
    net.network.power_up("b")
    net.run()
    assert net.a.closed == {1: CloseReason.ERROR}


def test_a_silent_peer_of_a_machine_that_vanished_learns_it_when_it_speaks():
    net = Net().connected()
    net.b.ends.clear()
    net.run()
    assert net.a.closed == {}
    net.network.send(net.a.ends[1], b"is there a peer?")
    net.run()
    assert net.a.closed == {1: CloseReason.ERROR}


def test_a_slow_link_is_slow_in_one_direction():
    net = Net().connected()
    net.network.delays["a", "b"] = (200, 200)
    begun = net.timeline.now
    net.network.send(net.a.ends[1], b"slow")
    net.network.send(net.b.ends[100], b"fast")
    net.run(until=begun + 10)
    assert (net.a.got, net.b.got) == ({1: b"fast"}, {})
    net.run()
    assert net.b.got == {100: b"slow"}


def test_a_stalled_stream_keeps_back_what_it_carries_and_no_other_stream():
    net = Net().connected()
    net.network.connect(("a", 2), ("b", 9092), lambda: True, net.answers.append)
    net.run()
    net.network.stall(net.a.ends[1])
    net.network.send(net.a.ends[1], b"old")
    net.network.send(net.a.ends[1], b" question")
    net.network.send(net.a.ends[2], b"new question")
    net.run()
    assert net.b.got == {101: b"new question"}
    net.network.unstall([net.a.ends[1]])
    assert net.b.got[100] == b"old question"
    assert net.network.effects["held"] == 2


def test_what_is_stalled_and_cut_waits_for_both():
    net = Net().connected()
    net.network.stall(net.a.ends[1])
    net.network.cut("a", "b")
    net.network.send(net.a.ends[1], b"x")
    net.run()
    net.network.unstall([net.a.ends[1]])
    assert net.b.got == {}
    net.network.heal("a", "b")
    assert net.b.got == {100: b"x"}


def test_a_trap_breaks_the_stream_within_the_next_frame():
    net = Net().connected()
    net.network.traps.add(("a", "b"))
    net.network.send(net.a.ends[1], b"0123456789")
    net.run()
    assert b"0123456789".startswith(net.b.got[100])
    assert 0 < len(net.b.got[100]) < 10
    assert (net.a.closed, net.b.closed) == ({1: CloseReason.ERROR}, {100: CloseReason.ERROR})
    assert not net.network.traps


def test_a_forgotten_stream_is_half_open_until_its_other_end_speaks():
    net = Net().connected()
    net.network.forget(net.a.ends[1])
    net.run()
    assert (net.a.closed, net.b.closed) == ({}, {100: CloseReason.ERROR})
    net.network.send(net.a.ends[1], b"still there?")
    net.run()
    assert (net.a.closed, net.b.got) == ({1: CloseReason.ERROR}, {})


def test_what_a_dead_process_was_sent_does_not_reach_its_successor_under_the_same_id():
    net = Net().connected()
    net.network.stall(net.b.ends[100])
    net.network.send(net.b.ends[100], b"for the dead")
    net.run()
    dead = net.a.ends.pop(1)
    net.network.close(dead)
    net.connect()
    net.run()
    assert net.a.ends[1] is not dead
    net.network.unstall([dead.reverse])
    net.run()
    assert net.a.got == {}
    assert net.a.closed == {}
    net.network.send(net.b.ends[net.b.opened[-1]], b"for the living")
    net.run()
    assert net.a.got == {1: b"for the living"}


@pytest.mark.parametrize("size", [1, 2, 48, 49, 50, 1000])
def test_a_dribbling_link_delivers_everything_in_many_pieces(size):
    net = Net().connected()
    net.network.dribbles.add(("a", "b"))
    pieces: list[bytes] = []
    net.b.on_bytes = lambda _, data: pieces.append(data)
    data = bytes(index % 251 for index in range(size))
    net.network.send(net.a.ends[1], data)
    net.run()
    assert b"".join(pieces) == data
    assert len(pieces) >= min(size, 49)


def test_a_clotting_link_delivers_what_came_meanwhile_as_one():
    net = Net().connected()
    net.network.clots["a", "b"] = 50
    pieces: list[tuple[int, bytes]] = []
    net.b.on_bytes = lambda _, data: pieces.append((net.timeline.now, data))
    for data in (b"1", b"2", b"3"):
        net.network.send(net.a.ends[1], data)
    net.run()
    assert [data for _, data in pieces] == [b"123"]
    assert pieces[0][0] % 50 == 0


@pytest.mark.parametrize("link", [("a", "b"), ("b", "a")])
def test_a_cut_of_one_port_leaves_the_others_alone(link):
    net = Net().connected()
    net.network.connect(("a", 2), ("b", 9093), lambda: True, net.answers.append)
    net.run()
    net.network.cut(*link, 9093)
    machine = net.a if link[0] == "a" else net.b
    for end in machine.ends.values():
        net.network.send(end, b"x")
    net.network.connect(("a", 3), ("b", 9093), lambda: True, net.answers.append)
    net.run(until=net.timeline.now + 500)
    other = net.b if link[0] == "a" else net.a
    assert len(other.got) == 1
    assert net.answers == [True, True]
    net.network.heal(*link, 9093)
    net.run()
    assert len(other.got) == 2
    assert net.answers == [True, True, True]
