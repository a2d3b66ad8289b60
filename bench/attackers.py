"""What attackers of a node do: each kind is a coroutine that ends after so many seconds.

    python -m bench.attackers KIND JSON

Strangers have no password, and reach the listener with TLS and logins:

- `half-open`: 10,000 connections, half of which send the beginning of a ClientHello and the others
  nothing; they stay until they are cut;
- `storm`: 1,000 new connections a second, half of which make a handshake;
- `frames`: lengths, arrays and tags that lie, frames that end in the middle;

and a user who may use the topic `bait` alone:

- `slow-writers`: 200 connections announce requests of 100 MB, send 4 MB at once, then little;
- `slow-readers`: 50 connections ask for all of the topic a hundred times and read nothing;
- `bombs`: batches of a few KB that inflate to gigabytes, where the broker has to look inside;
- `crowds`: likewise batches of a few KB with as many records as a broker looks at;
- `shout`: 20 connections write and read as fast as they are let.

The process runs at the lowest priority: on a machine of its own it would cost the nodes nothing.
"""

import asyncio
import json
import os
import ssl
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from tidelog.client import ClientSecurity
from tidelog.config import parse_properties
from tidelog.limits import MAX_INSPECTED_RECORDS
from tidelog.model import ZERO_TOPIC_ID
from tidelog.records.batch import build_batch
from tidelog.records.compression import Codec
from tidelog.records.record import Record
from tidelog.wire import fetch, produce
from tidelog.wire.fetch import FetchPartition, FetchRequest
from tidelog.wire.produce import ProducePartition, ProduceRequest

BAIT: Final = "bait"
PACKED: Final = "bait-packed"
"""A topic whose brokers pack batches themselves."""
LIES: Final = (
    bytes.fromhex("7fffffff"),
    bytes.fromhex("80000000"),
    bytes(4),
    bytes.fromhex("00100000") + bytes(100),
    # ApiVersions 3 with 2^28 tagged fields; SaslHandshake and SaslAuthenticate that announce 2 GB.
    bytes.fromhex("00000014 00120003 00000001 ffff 00 0161 0162 ffffffff0f") + bytes(1),
    bytes.fromhex("0000000c 00110001 00000001 ffff 7fff"),
    bytes.fromhex("00000010 00240000 00000001 ffff 7fffffff 0000"),
    bytes.fromhex("0000000e 00030001 00000001 ffff 7fffffff"),
)
MB: Final = 1 << 20


class Target(NamedTuple):
    """The node that is attacked, and the way in."""

    host: str
    port: int
    security: ClientSecurity
    seconds: float

    @property
    def ends_at(self) -> float:
        """By the monotonic clock."""
        return time.monotonic() + self.seconds


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
DONE: Final[Counter[str]] = Counter()
"""What this process has done."""


async def connect(target: Target, *, tls: bool = True) -> Streams:
    """A connection without a login."""
    context = target.security.context if tls else None
    name = target.host if tls else None
    found = await asyncio.open_connection(
        target.host, target.port, ssl=context, server_hostname=name
    )
    DONE["connections"] += 1
    return found


async def log_in(target: Target) -> Streams:
    """A connection of the user."""
    reader, writer = await connect(target)
    login = await asyncio.to_thread(target.security.login, "attacker")
    assert login is not None
    request: bytes | None = login.start()
    while request is not None:
        writer.write(request)
        size = int.from_bytes(await reader.readexactly(4))
        request = login.on_frame(await reader.readexactly(size))
    return reader, writer


@contextmanager
def until_cut() -> Iterator[None]:
    """The node may end any connection at any time; that is counted."""
    try:
        yield
    except TimeoutError:
        raise
    except (OSError, ssl.SSLError, asyncio.IncompleteReadError):
        DONE["cut"] += 1


async def repeated(target: Target, tasks: int, step: Callable[[], Awaitable[None]]) -> None:
    """So many tasks repeat a step until the time is over."""
    ends_at = target.ends_at

    async def repeat() -> None:
        while time.monotonic() < ends_at:
            with until_cut():
                await asyncio.wait_for(step(), max(0.1, ends_at - time.monotonic()))

    async def one() -> None:
        with suppress(TimeoutError):
            await repeat()

    await asyncio.gather(*(one() for _ in range(tasks)))


def hello() -> bytes:
    """The beginning of a ClientHello."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).wrap_bio(
        incoming, outgoing, server_hostname="localhost"
    )
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


async def half_open(target: Target) -> None:
    """10,000 handshakes that do not end."""
    ends_at, begun, first = target.ends_at, time.monotonic(), hello()[:60]
    held: list[Streams] = []
    for number in range(10_000):
        with until_cut():
            held.append(await connect(target, tls=False))
            if number % 2:
                held[-1][1].write(first)
        wait = begun + number * target.seconds / 12_000 - time.monotonic()
        await asyncio.sleep(max(0, wait))
        if len(held) > 4000:
            for _, writer in held[:1000]:
                writer.close()
            del held[:1000]
    await asyncio.sleep(max(0, ends_at - time.monotonic()))


async def storm(target: Target) -> None:
    """A thousand connections a second."""
    begun, number = time.monotonic(), 0
    tasks: set[asyncio.Task[None]] = set()

    async def one(shakes: bool) -> None:
        with until_cut():
            _, writer = await connect(target, tls=shakes)
            writer.close()

    while (passed := time.monotonic() - begun) < target.seconds:
        for _ in range(min(200, int(passed * 1000) - number)):
            number += 1
            if len(tasks) < 2000:
                task = asyncio.create_task(one(bool(number % 2)))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
        await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()


async def frames(target: Target) -> None:
    """Lies before a login."""

    async def step() -> None:
        reader, writer = await connect(target)
        lie = LIES[DONE["lies"] % len(LIES)]
        DONE["lies"] += 1
        writer.write(lie)
        await reader.read(1000)
        writer.close()

    await repeated(target, 50, step)


async def slow_writers(target: Target) -> None:
    """Requests that never end."""

    async def step() -> None:
        _, writer = await log_in(target)
        writer.write((100 * MB - 100).to_bytes(4) + bytes.fromhex("00000009000000070001"))
        for _ in range(4):
            writer.write(bytes(MB))
            await writer.drain()
            DONE["MB"] += 1
        while True:
            writer.write(bytes(100))
            await writer.drain()
            await asyncio.sleep(1)

    await repeated(target, 200, step)


def fetch_of_all(correlation_id: int) -> bytes:
    """Up to 40 MB of the bait."""
    wanted = FetchPartition(BAIT, ZERO_TOPIC_ID, 0, -1, 0, -1, -1, 40 * MB)
    request = FetchRequest(-1, -1, 0, 1, 40 * MB, 0, 0, -1, [wanted], [])
    return fetch.pack_request(11, correlation_id, "attacker", request)


async def slow_readers(target: Target) -> None:
    """Answers that are not read."""

    async def step() -> None:
        reader, writer = await log_in(target)
        writer.write(b"".join(map(fetch_of_all, range(100))))
        while await reader.read(1000):
            DONE["read"] += 1
            await asyncio.sleep(1)

    await repeated(target, 50, step)


def produce_of(topic: str, batch: bytes, correlation_id: int, acks: int = 1) -> bytes:
    """One batch."""
    partition = ProducePartition(topic, ZERO_TOPIC_ID, 0, memoryview(batch))
    request = ProduceRequest(None, acks, 10_000, [partition])
    return produce.pack_request(9, correlation_id, "attacker", request)


def bombs_of() -> list[bytes]:
    """As small as they get, of 200 MB and of 2 GB, in each codec."""
    now = time.time_ns() // 1_000_000
    made = []
    for codec in (Codec.GZIP, Codec.ZSTD, Codec.LZ4, Codec.SNAPPY):
        size = 200 * MB if codec in (Codec.GZIP, Codec.ZSTD) else 20 * MB
        batch = build_batch([Record(now, b"k", bytes(size))], codec=codec)
        made.append(produce_of(PACKED, batch, 7))
    return made


def crowds_of() -> list[bytes]:
    """Most records that a broker looks at, in each codec that is not the topic's."""
    now = time.time_ns() // 1_000_000
    records = [Record(now, b"k", b"")] * MAX_INSPECTED_RECORDS
    codecs = (Codec.GZIP, Codec.LZ4, Codec.SNAPPY)
    return [produce_of(PACKED, build_batch(records, codec=codec), 7) for codec in codecs]


async def bombs(target: Target) -> None:
    """Batches that inflate."""
    await packed(target, await asyncio.to_thread(bombs_of))


async def crowds(target: Target) -> None:
    """Batches of many records."""
    await packed(target, await asyncio.to_thread(crowds_of))


async def packed(target: Target, made: Sequence[bytes]) -> None:
    """Four connections send these requests, one after the other."""

    async def step() -> None:
        reader, writer = await log_in(target)
        while True:
            writer.write(made[DONE["bombs"] % len(made)])
            DONE["bombs"] += 1
            size = int.from_bytes(await reader.readexactly(4))
            await reader.readexactly(size)

    await repeated(target, 4, step)


async def shout(target: Target) -> None:
    """Writes and reads, each connection one request behind the other, five under way."""
    now = time.time_ns() // 1_000_000
    batch = build_batch([Record(now, None, os.urandom(900_000))])

    async def step() -> None:
        reader, writer = await log_in(target)
        writes = bool(DONE["shouters"] % 4)
        DONE["shouters"] += 1
        request = produce_of(BAIT, batch, 7) if writes else fetch_of_all(7)
        for _ in range(5):
            writer.write(request)
        while True:
            size = int.from_bytes(await reader.readexactly(4))
            left = size
            while left:
                left -= len(await reader.read(min(left, MB)))
            DONE["written MB" if writes else "read MB"] += 1 if writes else size // MB
            writer.write(request)
            await writer.drain()

    await repeated(target, 20, step)


KINDS: Final[dict[str, Callable[[Target], Awaitable[None]]]] = {
    "half-open": half_open,
    "storm": storm,
    "frames": frames,
    "slow-writers": slow_writers,
    "slow-readers": slow_readers,
    "bombs": bombs,
    "crowds": crowds,
    "shout": shout,
}


def main() -> None:
    """One attack; prints what it has done."""
    os.nice(19)
    # Where the kernel groups processes by session, only that of the whole session counts.
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text("19")
    kind, order = sys.argv[1], json.loads(sys.argv[2])
    text = Path(order["properties"]).read_text(encoding="utf-8")
    security = ClientSecurity(parse_properties(text))
    target = Target(order["host"], order["port"], security, order["seconds"])
    loop = asyncio.new_event_loop()
    # Connections that were cut in the middle are what is wanted here.
    loop.set_exception_handler(lambda _, context: None)
    task: Any = KINDS[kind](target)
    loop.run_until_complete(task)
    print(json.dumps(DONE), flush=True)
    # What is still open ends with the process.
    os._exit(0)


if __name__ == "__main__":
    main()
