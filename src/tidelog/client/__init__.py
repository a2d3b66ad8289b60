"""The one wire client: all our own code reaches brokers through it.

`core/` does no I/O and reads no clock. `calls` has requests whose version is chosen when they are
sent. `exchange` turns them into bytes, and bytes into answers, for one connection. `partitions` has
leaders and offsets, `descriptions` what administrators see, `retries` which failures pass.

The shells move the bytes: `blocking` over sockets, for commands, tests and Spark tasks; `streams`
on an event loop. `admin` has the administrator's calls on the blocking shell. `security_options`
reads Kafka's client properties and opens the sockets of both, with TLS where a cluster has it.

Left out: group membership and transactions, which
are the business of Kafka's own clients.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog.client.admin import AdminClient, AdminError, Unreachable
    from tidelog.client.security_options import ClientSecurity

__all__ = ["AdminClient", "AdminError", "ClientSecurity", "Unreachable"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from tidelog.client import admin

        if name == "ClientSecurity":
            from tidelog.client.security_options import ClientSecurity

            return ClientSecurity
        return getattr(admin, name)
    raise AttributeError(name)
