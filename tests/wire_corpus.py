"""Recorded exchanges of Apache Kafka 4.3.1: what real clients and nodes sent to each other.

for exchange in wire_corpus():
    header, body = parse_header(exchange.request)
"""

import base64
import gzip
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

_DATA = Path(__file__).parent / "data"
_CLIENTS, _NODES = "kafka-4.3.1-wire.jsonl.gz", "kafka-4.3.1-wire-internal.jsonl.gz"


class Exchange(NamedTuple):
    """One request and its response, both without the length prefix."""

    api_key: int
    api: str
    version: int
    peer: str
    """Which client sent it, or which kind of listener another node sent it to."""
    request: bytes
    response: bytes

    def __str__(self) -> str:
        return f"{self.api} {self.version} of {self.peer}"


def wire_corpus() -> tuple[Exchange, ...]:
    """All exchanges, those with clients first."""
    return client_corpus() + _read(_NODES)


def client_corpus() -> tuple[Exchange, ...]:
    """Exchanges with clients, one client after another, each in its order."""
    return _read(_CLIENTS)


@cache
def _read(name: str) -> tuple[Exchange, ...]:
    with gzip.open(_DATA / name, "rt") as lines:
        return tuple(_exchange(json.loads(line)) for line in lines)


def _exchange(said: Mapping[str, Any]) -> Exchange:
    return Exchange(
        said["api_key"],
        said["api"],
        said["version"],
        said.get("client") or said["to"],
        base64.b64decode(said["request"]),
        base64.b64decode(said["response"] or ""),
    )
