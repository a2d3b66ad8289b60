"""Goal: a few events are a line each, thousands are one; nothing is lost of what all have."""

from io import StringIO

from tidelog.env.trace import Level, TraceLine
from tidelog.model import TopicPartition
from tidelog.replication.events.roles import FollowingBegan
from tidelog.runtime.bursts import LINES_A_SECOND, LONGEST_MS, Bursts
from tidelog.runtime.log_lines import LogLines


class Clock:
    """A log with a clock that a test moves."""

    def __init__(self) -> None:
        self.now_ms = 5_000
        self.stream = StringIO()
        self.log = LogLines("b1", self.stream, clock=lambda: self.now_ms * 1_000_000)

    def lines(self) -> list[str]:
        """What has been written since the last call, without time and node."""
        self.log.flush()
        text = self.stream.getvalue()
        self.stream.seek(0)
        self.stream.truncate()
        return [line.split(" b1 ", 1)[1] for line in text.splitlines()]


def following(index: int, *, epoch: int = 7, leader: int = 2) -> FollowingBegan:
    """The event of one of many partitions that follow a leader."""
    return FollowingBegan(
        partition=TopicPartition("orders", index),
        leader=leader,
        leader_epoch=epoch,
        log_end=3 * index,
        high_watermark=100,
        was_leader=False,
    )


def test_a_few_are_lines_as_they_come() -> None:
    at = Clock()
    for index in range(LINES_A_SECOND):
        at.log.emit(following(index))
    assert at.lines() == [following(index).text() for index in range(LINES_A_SECOND)]
    at.now_ms += 2_000
    assert at.lines() == []


def test_thousands_are_the_first_few_and_one_line() -> None:
    at = Clock()
    for index in range(3_000):
        at.log.emit(following(index))
    assert len(at.lines()) == LINES_A_SECOND
    at.now_ms += 1_000
    assert at.lines() == [
        "orders-10, orders-11, orders-12 and 2987 more become_follower: follows leader=2 "
        "leader_epoch=7 log_end=30..8997 high_watermark=100 last=orders-2999 within_ms=1000"
    ]


def test_the_whole_of_a_long_burst_is_counted_in_several_lines() -> None:
    at = Clock()
    lines = []
    for index in range(25_000):
        at.log.emit(following(index))
        at.now_ms += 1
        lines += at.lines()
    at.now_ms += 1_000
    lines += at.lines()
    assert len(lines) == LINES_A_SECOND + 25_000 // LONGEST_MS + 1
    counted = sum(3 + int(line.split(" and ")[1].split()[0]) for line in lines[LINES_A_SECOND:])
    assert counted == 25_000 - LINES_A_SECOND


def test_events_of_other_sorts_have_their_own_lines() -> None:
    at = Clock()
    for index in range(100):
        at.log.emit(following(index))
        at.log.emit(following(index, leader=-1))
    at.log.emit(TraceLine(Level.INFO, "quorum", "become_leader", "leader", "", {"epoch": 3}))
    lines = at.lines()
    assert len(lines) == 2 * LINES_A_SECOND + 1
    assert lines[-1] == "quorum become_leader: leader epoch=3"
    at.now_ms += 1_000
    follows, waits = at.lines()
    assert " and 87 more become_follower: follows leader=2 " in follows
    assert " and 87 more become_follower: waits leader=-1 " in waits


def test_lines_of_people_are_counted_likewise_and_a_text_that_differs_is_not_shown() -> None:
    at = Clock()
    for index in range(50):
        values = {"peer": f"10.0.0.{index}", "port": 9092}
        line = TraceLine(Level.WARN, f"connection {index}", "on_received", "closed", "bad", values)
        at.log.emit(line)
    at.lines()
    at.now_ms += 1_000
    assert at.lines() == [
        "connection 10, connection 11, connection 12 and 37 more on_received: closed (bad) "
        "port=9092 last=connection 49 within_ms=1000"
    ]


def test_one_that_was_held_alone_has_its_own_text() -> None:
    at = Clock()
    for index in range(LINES_A_SECOND + 1):
        at.log.emit(following(index))
    at.lines()
    at.now_ms += 1_000
    assert at.lines() == [following(LINES_A_SECOND).text()]


def test_after_a_burst_lines_come_as_before() -> None:
    at = Clock()
    for index in range(100):
        at.log.emit(following(index))
    at.now_ms += 1_000
    assert len(at.lines()) == LINES_A_SECOND + 1
    at.log.emit(following(1))
    assert at.lines() == [following(1).text()]


def test_a_process_that_ends_counts_its_bursts() -> None:
    at = Clock()
    for index in range(100):
        at.log.emit(following(index))
    at.log.end_bursts()
    assert at.lines()[-1].startswith("orders-10, orders-11, orders-12 and 87 more ")


def test_a_crash_comes_after_the_bursts_before_it() -> None:
    at = Clock()
    for index in range(100):
        at.log.emit(following(index))
    at.log.crash(AssertionError("x"))
    text = at.stream.getvalue()
    assert 0 < text.index("87 more") < text.index("stopped by a bug")


def test_sorts_are_forgotten_when_they_are_quiet() -> None:
    """Goal: a peer that makes up reasons costs no memory for good."""
    bursts = Bursts()
    for index in range(5_000):
        line = TraceLine(Level.WARN, "connection 1", "on_received", "closed", f"r{index}", {})
        assert not bursts.holds(line, index)
        bursts.take_over(index)
    bursts.take_over(20_000)
    assert not bursts.has_any
