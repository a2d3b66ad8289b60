"""Whether a turn costs what has changed, and not what exists: the step `clients` of `bench.scale`.

- idle clients: CPU of all nodes, in percent of a core, while so many connections stay silent;
- busy clients: CPU of all nodes for one request, when so many clients ask for an offset and wait
  for the answer before they ask again;
- consumer: CPU for an incremental fetch of a session with 1,000 partitions (or as many as the
  asked broker leads) when nothing is new, and when one partition is;
- one busy partition: CPU of all nodes for a record that is acknowledged by all replicas, one at a
  time, while the followers' sessions have all partitions of the cluster; and how long that takes.

Figures of one kind should not grow from left to right, nor from few partitions to many.
"""

import selectors
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from itertools import count
from statistics import median
from typing import Any, Final

from confluent_kafka import Producer

from tidelog.client.blocking import Connection
from tidelog.client.core.calls import Call, fetch_call, request
from tidelog.client.core.values import Address
from tidelog.model import NO_EPOCH, ZERO_TOPIC_ID
from tidelog.wire import fetch
from tidelog.wire.api import ApiKey
from tidelog.wire.values import millis

CLIENTS: Final = (1, 100, 1_000)
CONSUMED: Final = 1_000
PERIOD_S: Final = 3.0
FETCHES: Final = 1_000
RECORDS: Final = 500
_NEWEST_BY_NAME: Final = 12

Cpu = Callable[[], float]
"""Seconds of processor time that all nodes have spent."""


def measure_clients(
    addresses: Sequence[Address], topic: str, partitions: int, cpu: Cpu
) -> dict[str, Any]:
    """All figures; `topic` has so many partitions, and records in them."""
    figures: dict[str, Any] = {"idle_clients_cpu_percent": [], "busy_clients_us": []}
    for number in CLIENTS:
        with ExitStack() as stack:
            clients = [
                stack.enter_context(closing(Connection(addresses[i % 3], "bench", 30)))
                for i in range(number)
            ]
            before, began = cpu(), time.monotonic()
            time.sleep(PERIOD_S)
            idle = (cpu() - before) / (time.monotonic() - began)
            figures["idle_clients_cpu_percent"].append(round(100 * idle, 1))
            figures["busy_clients_us"].append(round(busy_us(clients, topic, cpu)))
    figures |= consume(addresses[0], topic, partitions, cpu)
    return figures | produce_one(addresses, topic, cpu)


def busy_us(clients: Sequence[Connection], topic: str, cpu: Cpu) -> float:
    """Microseconds for a request, when all of them ask all the time."""
    ask = request(
        ApiKey.LIST_OFFSETS,
        replica_id=-1,
        isolation_level=0,
        timeout=millis(1000),
        topics=[{"name": topic, "partitions": [_offset_of(0)]}],
    )
    answers, before, end = 0, cpu(), time.monotonic() + PERIOD_S
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client._socket, selectors.EVENT_READ, client)
            client.send(ask)
        while time.monotonic() < end:
            for key, _ in selector.select(0.1):
                key.data.receive()
                key.data.send(ask)
                answers += 1
        for client in clients:
            client.receive()
    return 1e6 * (cpu() - before) / (answers + len(clients))


def _offset_of(partition: int) -> dict[str, object]:
    return {"partition_index": partition, "current_leader_epoch": -1, "timestamp": -1}


def consume(address: Address, topic: str, partitions: int, cpu: Cpu) -> dict[str, Any]:
    """A session of the partitions that one broker leads."""
    with closing(Connection(address, "bench", 30)) as client:
        every = [wanted(topic, number, 0) for number in range(partitions)]
        seen = client.call(session_fetch(0, -1, every, max_bytes=0))
        led = [row.partition for row in seen.partitions if row.error_code.name == "NONE"][:CONSUMED]
        # From the ends on, so that nothing is new.
        ends = {row.partition: row.high_watermark for row in seen.partitions}
        opened = client.call(session_fetch(0, 0, [wanted(topic, n, ends[n]) for n in led]))
        figures: dict[str, Any] = {"consumed_partitions": len(led)}
        epochs = count(1)
        for name, news in (("unchanged", []), ("changed", [wanted(topic, led[0], 0)])):
            before = cpu()
            for _ in range(FETCHES):
                found = client.call(session_fetch(opened.session_id, next(epochs), news))
                assert len(found.partitions) == len(news), f"{len(found.partitions)} have news"
            figures[f"consumer_{name}_us"] = round(1e6 * (cpu() - before) / FETCHES)
    return figures


def wanted(topic: str, partition: int, offset: int) -> fetch.FetchPartition:
    """A partition from an offset on."""
    return fetch.FetchPartition(
        topic, ZERO_TOPIC_ID, partition, NO_EPOCH, offset, NO_EPOCH, -1, 1 << 20
    )


def session_fetch(
    session_id: int,
    epoch: int,
    partitions: Sequence[fetch.FetchPartition],
    max_bytes: int = 50 << 20,
) -> Call[fetch.FetchResponse]:
    """A fetch that does not wait."""
    isolation = fetch.READ_UNCOMMITTED
    return fetch_call(
        fetch.FetchRequest(
            -1, -1, 0, 0, max_bytes, isolation, session_id, epoch, [*partitions], []
        ),
        _NEWEST_BY_NAME,
    )


def produce_one(addresses: Sequence[Address], topic: str, cpu: Cpu) -> dict[str, Any]:
    """Records to one partition, each after the acknowledgement of the one before."""
    servers = ",".join(map(str, addresses))
    producer = Producer(
        {"bootstrap.servers": servers, "acks": "all", "linger.ms": 0, "log_level": 0}
    )
    took = []
    producer.produce(topic, b"x", partition=0)
    producer.flush(30)
    before = cpu()
    for _ in range(RECORDS):
        began = time.monotonic()
        producer.produce(topic, b"x", partition=0)
        producer.flush(30)
        took.append(time.monotonic() - began)
    return {
        "one_busy_partition_us": round(1e6 * (cpu() - before) / RECORDS),
        "one_busy_partition_ms": round(median(took) * 1000, 2),
    }
