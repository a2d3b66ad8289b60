"""Goal: a dial reports why it failed, because a refusal means that the other process is gone."""

import asyncio
import socket

import uvloop

from tests.unit.runtime.harness import running_driver
from tidelog.env.effects import CloseReason
from tidelog.runtime.dial import dial


def test_dials_report_how_they_went() -> None:
    with running_driver() as target, running_driver() as running:
        client = running.client()
        assert client.ask(b"dial 127.0.0.1 %d" % target.port) == b"connected"
        assert client.ask(b"dial localhost %d" % target.port) == b"connected"
        with socket.socket() as reserved:
            reserved.bind(("127.0.0.1", 0))
            port = reserved.getsockname()[1]
            assert client.ask(b"dial 127.0.0.1 %d" % port) == b"REFUSED"
            assert client.ask(b"dial localhost %d" % port) == b"REFUSED"
        assert client.ask(b"dial no-such-host.invalid 9092") == b"ERROR"
        assert [event.connection for event in target.core.opened()] == [1, 2]


def test_an_address_that_does_not_answer_times_out() -> None:
    """Method: a listener whose queue is full lets the kernel drop every further attempt."""

    async def attempt() -> CloseReason | None:
        loop = asyncio.get_running_loop()
        return await dial(loop, asyncio.BufferedProtocol, "127.0.0.1", port, timeout_ms=50)

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for sock in waiting:
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", port))
        assert uvloop.run(attempt()) is CloseReason.TIMEOUT
        for sock in waiting:
            sock.close()
