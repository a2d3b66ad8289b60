"""The same strangers over sockets, to the listener of a node that is a process: TLS and logins.

Two hundred are there at one time. Every fourth damages the bytes of its handshake, and speaks no
TLS after that; the others send damaged frames through TLS, one case behind the other for as long as
the node answers and keeps them. They do not wait for what does not come: each whole frame is
answered, or the connection ends (EveryRequestIsAnsweredOrClosed), within two minutes; and where a
frame is not whole, the stranger says at once that nothing more comes. The node must serve a client
that has a password in the end, and must not have ended in between.
"""

import asyncio
import ssl
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import uvloop
from bench.attackers import hello

from tests.fuzz.mutations import REQUEST_MUTATIONS, mutated
from tests.fuzz.strangers import of_a_stranger
from tests.wire_corpus import wire_corpus
from tidelog.env.prng import Prng
from tidelog.runtime.tls_filter import TlsFilter
from tidelog.testing import LocalCluster
from tidelog.testing.cluster_state import HOST
from tidelog.wire.frames import FrameReader

_AT_ONE_TIME = 200
_PATIENCE_S = 120.0
"""Of one connection, from its beginning to its end."""
_MOST_CASES = 64
"""Of one connection."""


class Crowd:
    """Those who come, and what they have done."""

    def __init__(self, port: int, first_case: int) -> None:
        self.port = port
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # To check certificates takes longer than all else here, and is not what is tried.
        self.context.check_hostname = False
        self.context.verify_mode = ssl.CERT_NONE
        self.cases: Iterator[int] = count(first_case)
        self.requests = [each.request for each in wire_corpus()][:300]
        self.greeting = hello()
        # Damaged frames, connections, handshakes that were done, answers.
        self.done: Counter[str] = Counter()
        # What no node may do.
        self.failures: list[str] = []

    async def come(self, ends: Callable[[int], bool]) -> None:
        """Sends until it is enough."""

        async def one() -> None:
            while not ends(self.done["damaged_frames"]):
                with suppress(OSError):
                    loop = asyncio.get_running_loop()
                    _, stranger = await loop.create_connection(
                        lambda: Stranger(self), HOST, self.port
                    )
                    await stranger.left

        await asyncio.gather(*(one() for _ in range(_AT_ONE_TIME)))


class Stranger(asyncio.Protocol):
    """One connection."""

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd
        self._case = next(crowd.cases)
        self._cases_left = _MOST_CASES
        # Without TLS only the handshake is damaged.
        self._tls = TlsFilter(crowd.context, HOST) if self._case % 4 else None
        self._shaken = False
        self._plain = memoryview(bytearray(64 << 10))
        self._transport: Any = None
        self._patience: asyncio.TimerHandle | None = None
        # Cuts the answers; how many the node owes, and whether it will learn of no more requests.
        self._answers = FrameReader()
        self._owed = 0
        self._has_left = False
        # Done when the connection is gone.
        self.left = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._crowd.done["connections"] += 1
        # However busy both are: who is neither answered nor cut has found an anomaly.
        loop = asyncio.get_running_loop()
        self._patience = loop.call_later(_PATIENCE_S, self._lose_patience)
        if self._tls is None:
            data = mutated(Prng(self._case), self._crowd.greeting, REQUEST_MUTATIONS)
            self._crowd.done["damaged_frames"] += 1
            transport.write(data)  # type: ignore[attr-defined]
            self._leave()
        else:
            self._tls.handshake()
            self._transport.write(self._tls.take())

    def data_received(self, data: bytes) -> None:
        if self._tls is None:
            self._transport.abort()
            return
        self._tls.feed(data)
        try:
            if not self._shaken:
                self._shaken = self._tls.handshake()
                self._crowd.done["handshakes"] += self._shaken
            if self._shaken:
                self._take_answers()
        except ssl.SSLError:
            self._transport.abort()
            return
        if self._tls.has_ended:
            self._transport.abort()
        elif self._shaken and not self._owed and not self._has_left:
            self._next_case()

    def _take_answers(self) -> None:
        assert self._tls is not None
        while size := self._tls.read_into(self._plain):
            answers = len(self._answers.feed(bytes(self._plain[:size])))
            self._crowd.done["answers"] += answers
            self._owed -= answers
        if self._owed < 0 and not self._has_left:
            self._crowd.failures.append(f"case {self._case}: more answers than requests")

    def _next_case(self) -> None:
        assert self._tls is not None
        self._case = next(self._crowd.cases)
        self._cases_left -= 1
        stream = of_a_stranger(Prng(self._case), self._crowd.requests)
        self._crowd.done["damaged_frames"] += stream.damaged
        sealed = self._tls.seal([stream.data])
        owed = whole_frames(stream.data)
        if owed is not None and self._cases_left:
            self._owed = owed
            self._transport.writelines(sealed)
            return
        self._transport.writelines(sealed)
        self._leave()

    def _leave(self) -> None:
        """Says that nothing more comes: the node would wait for the rest of a frame."""
        self._has_left = True
        if self._tls is not None:
            self._tls.shut_down()
            if self._tls.has_outgoing:
                self._transport.write(self._tls.take())
        self._transport.write_eof()

    def _lose_patience(self) -> None:
        self._crowd.failures.append(
            f"case {self._case}: {self._owed} requests neither answered nor cut, "
            f"handshake done: {self._shaken}, has left: {self._has_left}"
        )
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._patience is not None:
            self._patience.cancel()
        self.left.set_result(None)


def whole_frames(data: bytes) -> int | None:
    """How many frames these bytes are; `None` if they are not whole frames alone: then the node
    waits for more, or closes the connection."""
    position = found = 0
    while position < len(data):
        size = int.from_bytes(data[position : position + 4], signed=True)
        position += 4 + size
        if size <= 0:
            return None
        found += 1
    return found if position == len(data) else None


def try_sockets(
    frames: int, seed: int, seconds: float, resident_mb: Callable[[int], float]
) -> dict[str, Any]:
    """So many damaged frames, or as many as there is time for."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "cluster"
        with LocalCluster(1, data_dir=place, secure=True) as cluster:
            (node,) = cluster.nodes
            assert node.pid is not None
            crowd, begun, memory_mb = Crowd(node.port, seed), time.monotonic(), list[int]()
            for part in (10, 1):
                goal, until = frames / part, begun + seconds / part
                ends = lambda sent, goal=goal, until=until: (  # noqa: E731
                    sent >= goal or time.monotonic() > until
                )
                uvloop.run(crowd.come(ends))
                memory_mb.append(round(resident_mb(node.pid)))
            took_s = round(time.monotonic() - begun)
            cluster.wait_until_ready()
    rate = round(crowd.done["damaged_frames"] / max(took_s, 1))
    figures = {"seconds": took_s, "frames_a_second": rate, "memory_mb": memory_mb}
    return {**crowd.done, **figures, "failures": crowd.failures[:20]}
