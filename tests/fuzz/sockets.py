"""The same strangers over sockets, to the listener of a node that is a process: TLS and logins.

A hundred are there at one time. Every fourth damages the bytes of its handshake, and speaks no TLS
after that; the others send damaged frames through TLS. The node must serve a client that has a
password in the end, and must not have ended in between.
"""

import asyncio
import ssl
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.attackers import hello

from tests.fuzz.mutations import REQUEST_MUTATIONS, mutated
from tests.fuzz.strangers import of_a_stranger
from tests.wire_corpus import wire_corpus
from tidelog.env.prng import Prng
from tidelog.testing import LocalCluster
from tidelog.testing.cluster_state import HOST

_AT_ONE_TIME = 100
_HANDSHAKE_S = 10.0
_ANSWER_S = 0.2


async def _knock(
    port: int, context: ssl.SSLContext, case: int, corpus: list[bytes], greeting: bytes
) -> int:
    """One stranger; how many damaged frames it had."""
    prng = Prng(case)
    speaks = case % 4 > 0
    if speaks:
        stream = of_a_stranger(prng, corpus)
        data, damaged = stream.data, stream.damaged
    else:
        data, damaged = mutated(prng, greeting, REQUEST_MUTATIONS), 1
    with suppress(OSError, ssl.SSLError, TimeoutError):
        async with asyncio.timeout(_HANDSHAKE_S):
            reader, writer = await asyncio.open_connection(
                HOST,
                port,
                ssl=context if speaks else None,
                server_hostname=HOST if speaks else None,
            )
        try:
            writer.write(data)
            async with asyncio.timeout(_ANSWER_S):
                await reader.read(10_000)
        except TimeoutError:
            # The node waits for the rest of a frame.
            pass
        finally:
            writer.transport.abort()
        return damaged
    return 0


async def _crowd(
    port: int, context: ssl.SSLContext, first: int, ends: Callable[[int], bool]
) -> int:
    corpus, greeting = [each.request for each in wire_corpus()][:300], hello()
    cases, sent = iter(range(first, 1 << 62)), 0

    async def one() -> None:
        nonlocal sent
        while not ends(sent):
            sent += await _knock(port, context, next(cases), corpus, greeting)

    await asyncio.gather(*(one() for _ in range(_AT_ONE_TIME)))
    return sent


def try_sockets(
    frames: int, seed: int, seconds: float, resident_mb: Callable[[int], float]
) -> dict[str, Any]:
    """So many damaged frames, or as many as there is time for."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "cluster"
        with LocalCluster(1, data_dir=place, secure=True) as cluster:
            (node,) = cluster.nodes
            assert cluster.security is not None and node.pid is not None
            context = cluster.security.client().context
            assert context is not None
            counts, first_mb = [], 0.0
            for part in (10, 1):
                goal, until = frames // part, begun + seconds / part
                ends = lambda sent, goal=goal, until=until: (  # noqa: E731
                    sent + sum(counts) >= goal or time.monotonic() > until
                )
                first = seed + len(counts) * (1 << 40)
                counts.append(asyncio.run(_crowd(node.port, context, first, ends)))
                first_mb = first_mb or resident_mb(node.pid)
            last_mb = resident_mb(node.pid)
            cluster.wait_until_ready()
    return {
        "damaged_frames": sum(counts),
        "seconds": round(time.monotonic() - begun),
        "memory_mb": [round(first_mb), round(last_mb)],
    }
