"""Recorded exchanges of Apache Kafka 4.3.1: what real clients and nodes sent to each other.

for exchange in wire_corpus():
    header, body = parse_header(exchange.request)
"""

import base64
import gzip
import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

_DATA = Path(__file__).parent / "data"
_FILES = ("kafka-4.3.1-wire.jsonl.gz", "kafka-4.3.1-wire-internal.jsonl.gz")


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


@cache
def wire_corpus() -> tuple[Exchange, ...]:
    """All exchanges, those with clients first."""
    exchanges = []
    for name in _FILES:
        with gzip.open(_DATA / name, "rt") as lines:
            for line in lines:
                said = json.loads(line)
                exchanges.append(
                    Exchange(
                        said["api_key"],
                        said["api"],
                        said["version"],
                        said.get("client") or said["to"],
                        base64.b64decode(said["request"]),
                        base64.b64decode(said["response"] or ""),
                    )
                )
    return tuple(exchanges)
