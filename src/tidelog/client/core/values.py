"""The small values of the client: addresses of brokers, special offsets. Light to import."""

from collections.abc import Iterable
from typing import Final, NamedTuple, Self

from tidelog.errors import UsageError

EARLIEST: Final = -2
LATEST: Final = -1
"""Special timestamps of ListOffsets: the log's start, and its end as the reader may see it, which
is the high watermark, or the last stable offset for `read_committed`."""


class Address(NamedTuple):
    """Host and port of a listener."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Reads `host:port`, an IPv6 host in brackets; `None` for anything else."""
        host, separator, port = text.strip().rpartition(":")
        if not (separator and host and port.isdecimal() and 0 < int(port) < 1 << 16):
            return None
        if "/" in host:  # An address with a scheme.
            return None
        return cls(host.strip("[]"), int(port))

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def parse_addresses(texts: Iterable[str]) -> list[Address]:
    """Several addresses; raises `UsageError` for the first that is not one."""
    addresses = []
    for text in texts:
        address = Address.parse(text)
        if address is None:
            raise UsageError(
                f"`{text}` is not a `host:port` address", "write it like `localhost:9092`"
            )
        addresses.append(address)
    return addresses
