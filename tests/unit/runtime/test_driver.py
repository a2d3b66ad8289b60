"""Goal: the driver carries inputs in and effects out, over real sockets, in order and in time."""

import asyncio
import itertools
import socket
import time
from contextlib import closing
from pathlib import Path

from tests.unit.runtime.cores import EchoCore
from tests.unit.runtime.harness import (
    TIMEOUT_S,
    Client,
    RunningDriver,
    running_core,
    running_driver,
)
from tests.unit.runtime.test_event_file import append, opened
from tidelog.env.effects import Closed, CloseReason, FlushFailed, WallClock
from tidelog.env.memory_disk import MemoryDisk
from tidelog.limits import ENOUGH_INPUT_MS
from tidelog.runtime.event_file import EVENTS_FILE, MAX_EVENTS_PER_TICK
from tidelog.testing.waiting import wait_until


def test_bytes_go_in_and_answers_come_out_in_order() -> None:
    with running_driver() as running:
        client = running.client()
        client.write(b"".join(b"line %d\n" % i for i in range(5000)))
        assert [client.line() for _ in range(5000)] == [b"line %d" % i for i in range(5000)]
        client.close()
    # One tick per turn of the loop, not one per line.
    assert running.core.ticks < 2000


def test_a_turn_ends_where_what_has_arrived_takes_long() -> None:
    """Goal: BoundedTurn. Method: each look at the clock is a millisecond later, and many inputs
    arrive in one iteration of the loop; the tick that was asked for first finds nothing to do."""
    times, core = itertools.count(time.monotonic_ns(), 1_000_000), EchoCore(MemoryDisk())
    with running_core(core, clock=lambda: next(times)) as running:
        client = running.client()
        assert client.ask(b"x") == b"x"

        async def deliver() -> int:
            (connection,), before = running.driver._connections.values(), core.ticks
            for _ in range(2 * ENOUGH_INPUT_MS):
                running.driver.on_received(connection, memoryview(b"y\n"))
            return core.ticks - before

        delivered = asyncio.run_coroutine_threadsafe(deliver(), running.loop)
        assert 2 <= delivered.result(TIMEOUT_S) < 2 * ENOUGH_INPUT_MS


def test_what_is_computed_beside_the_loop_comes_back_in_order() -> None:
    with running_driver() as running:
        client = running.client()
        client.write(b"compute abc\ncompute def\n")
        assert [client.line(), client.line()] == [b"cba", b"fed"]


def test_a_stop_request_ends_the_driver_with_the_cores_code() -> None:
    with running_driver() as running:
        client = running.client()
        assert client.ask(b"x") == b"x"
        assert running.stop() == 0
        assert client.closed()
        assert running.driver.exit_message == "asked to"
    assert isinstance(running.core.inputs[0], WallClock)


def test_the_wall_offset_leads_from_monotonic_to_wall_time() -> None:
    with running_driver() as running:
        assert running.client().ask(b"x") == b"x"
    first = running.core.inputs[0]
    assert isinstance(first, WallClock)
    wall_ms = first.offset_ms + time.monotonic_ns() // 1_000_000
    assert abs(wall_ms - time.time_ns() // 1_000_000) < 1000


def test_connections_are_numbered_and_their_ends_reported() -> None:
    with running_driver() as running:
        first, second = running.client(), running.client()
        assert (first.ask(b"a"), second.ask(b"b")) == (b"a", b"b")
        first.close()
        assert second.ask(b"c") == b"c"
        second.socket.setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00"
        )
        second.close()
        third = running.client()
        assert third.ask(b"d") == b"d"
    assert [(o.connection, o.listener) for o in running.core.opened()] == [
        (1, "PLAINTEXT"),
        (2, "PLAINTEXT"),
        (3, "PLAINTEXT"),
    ]
    closed = {e.connection: e.reason for e in running.core.inputs if isinstance(e, Closed)}
    assert closed[1] is CloseReason.PEER
    assert closed[2] is CloseReason.ERROR


def test_timers_wake_the_core_in_their_order() -> None:
    with running_driver() as running:
        client = running.client()
        began = time.monotonic()
        client.write(b"late 60 second\nlate 20 first\n")
        assert [client.line(), client.line()] == [b"first", b"second"]
        assert time.monotonic() - began >= 0.055


def test_a_bug_in_the_core_stops_the_process_with_code_70() -> None:
    with running_driver() as running:
        client = running.client()
        client.write(b"bug\n")
        assert client.closed()
        assert running.stop() == 70
    assert "AssertionError: the core is broken" in running.log_text.getvalue()
    assert "Traceback" in running.log_text.getvalue()


def test_one_connection_too_many_is_closed_at_once() -> None:
    with running_driver(max_connections=1) as running:
        first = running.client()
        assert first.ask(b"x") == b"x"
        second = Client(running.port)
        assert second.closed()
        assert first.ask(b"y") == b"y"
    assert len(running.core.opened()) == 1
    assert running.driver.counters.refused == 1


def test_a_sync_that_no_effect_waits_for_is_reported_when_it_fails() -> None:
    """Goal: a file that is synced only to be parked is lost as loudly as any other."""
    disk = MemoryDisk()
    bad = disk.open("bad", create=True)
    disk.failing = "broken"
    with running_driver(disk) as running:
        running.loop.call_soon_threadsafe(running.driver.sync_later, bad)
        wait_until(lambda: len(failures(running)) > 0, TIMEOUT_S, "the failure")
    assert failures(running) == [FlushFailed(None, "`bad`: broken")]


def test_events_that_wait_for_their_tick_get_one(tmp_path: Path) -> None:
    core = EchoCore(MemoryDisk())
    count = 3 * MAX_EVENTS_PER_TICK
    with closing(opened(tmp_path)) as file, running_core(core, events=file) as running:
        assert running.client().ask(b"x") == b"x"
        for required in range(count):
            file.emit(append(required))
        assert running.client().ask(b"x") == b"x"
        path = tmp_path / EVENTS_FILE
        wait_until(lambda: path.read_text().count("\n") == count + 1, TIMEOUT_S, "all events")


def failures(running: RunningDriver) -> list[FlushFailed]:
    """The failed flushes that the core has received."""
    return [event for event in running.core.inputs if isinstance(event, FlushFailed)]
