"""What a driver obeys about connections: a value made of a node's configuration."""

from dataclasses import dataclass

from tidelog.runtime.connection_limits import ConnectionLimits
from tidelog.runtime.tls_contexts import NO_TLS, TlsContexts


@dataclass(frozen=True, slots=True)
class Network:
    """How connections are made, and which are taken."""

    connect_timeout_ms: int
    """How long a connection to another node may take to open."""
    limits: ConnectionLimits
    """Which accepted connections stay."""
    tls: TlsContexts = NO_TLS
