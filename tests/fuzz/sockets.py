"""The same strangers over sockets, to the listener of a node that is a process: TLS and logins.

Two hundred are there at one time. Every fourth damages the bytes of its handshake, and speaks no
TLS after that; the others send damaged frames through TLS, one case behind the other for as long as
the node answers and keeps them. The node must serve a client that has a password in the end, and
must not have ended in between.
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

_AT_ONE_TIME = 200
_SHAKING_S = 10.0
_SILENCE_S = 1.0
"""A node that does not answer for so long waits for the rest of a frame."""
_MOST_CASES = 16
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
        # Damaged frames, connections, handshakes that were done, pieces of answers.
        self.done: Counter[str] = Counter()

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
        self._silence: asyncio.TimerHandle | None = None
        # Done when the connection is gone.
        self.left = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._crowd.done["connections"] += 1
        if self._tls is None:
            data = mutated(Prng(self._case), self._crowd.greeting, REQUEST_MUTATIONS)
            self._send(data, 1, _SILENCE_S)
        else:
            self._tls.handshake()
            self._send(self._tls.take(), 0, _SHAKING_S)

    def data_received(self, data: bytes) -> None:
        if self._tls is None:
            self._transport.abort()
            return
        self._tls.feed(data)
        try:
            if not self._shaken:
                self._shaken = self._tls.handshake()
                self._crowd.done["handshakes"] += self._shaken
                answered = self._shaken
            else:
                answered = bool(self._tls.read_into(self._plain))
                self._crowd.done["answers"] += answered
        except ssl.SSLError:
            self._transport.abort()
            return
        if self._tls.has_ended or not self._cases_left:
            self._transport.abort()
        elif answered:
            self._next_case()

    def _next_case(self) -> None:
        assert self._tls is not None
        self._cases_left -= 1
        stream = of_a_stranger(Prng(self._case), self._crowd.requests)
        self._case = next(self._crowd.cases)
        self._send(b"".join(self._tls.seal([stream.data])), stream.damaged, _SILENCE_S)

    def _send(self, data: bytes, damaged: int, patience_s: float) -> None:
        self._crowd.done["damaged_frames"] += damaged
        if self._silence is not None:
            self._silence.cancel()
        loop = asyncio.get_running_loop()
        self._silence = loop.call_later(patience_s, self._transport.abort)
        self._transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._silence is not None:
            self._silence.cancel()
        self.left.set_result(None)


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
    return {**crowd.done, "seconds": took_s, "memory_mb": memory_mb}
