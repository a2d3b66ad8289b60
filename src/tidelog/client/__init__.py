"""The one wire client: all our own code reaches brokers through it.

`core/` does no I/O and reads no clock. `calls` has requests whose version is chosen when they are
sent. `exchange` turns them into bytes, and bytes into answers, for one connection. `partitions` has
leaders and offsets, `descriptions` what administrators see, `retries` which failures pass.

The shells move the bytes: `blocking` over sockets, for commands, tests and Spark tasks; `streams`
on an event loop. `admin` has the administrator's calls on the blocking shell.

Left out: TLS; SASL, whose seat is `Exchange.greeting`; group membership and transactions, which
are the business of Kafka's own clients.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog.client.admin import AdminClient, AdminError, Unreachable

__all__ = ["AdminClient", "AdminError", "Unreachable"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from tidelog.client import admin

        return getattr(admin, name)
    raise AttributeError(name)
