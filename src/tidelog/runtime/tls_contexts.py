"""The TLS contexts of a node: for each listener that it opens, and for each that it dials."""

import ssl
from collections.abc import Iterable, Mapping

from tidelog.config import NodeConfig
from tidelog.config.values import TlsConfig
from tidelog.tls.contexts import client_context, server_context


class TlsContexts:
    """Made at the start, so that what cannot work is refused there."""

    def __init__(
        self, tls: Mapping[str, TlsConfig], opened: Iterable[str] = (), dialled: Iterable[str] = ()
    ) -> None:
        """Names of listeners; those that do not use TLS have none. Raises `UsageError`."""
        # By the names of the listeners that this node opens, and of those that it dials.
        self._opened = {name: server_context(tls[name], name) for name in opened if name in tls}
        self._dialled = {name: client_context(tls[name]) for name in dialled if name in tls}

    @classmethod
    def of_node(cls, config: NodeConfig) -> "TlsContexts":
        """Of a node's listeners; it dials brokers and controllers."""
        opened = [endpoint.listener for endpoint in config.listeners]
        dialled = {config.inter_broker_listener_name, config.controller_listener_names[0]}
        return cls(config.tls, opened, dialled)

    def of_opened(self, listener: str) -> ssl.SSLContext | None:
        """For a connection that a listener accepts; `None` for one without TLS."""
        return self._opened.get(listener)

    def of_dialled(self, listener: str) -> ssl.SSLContext | None:
        """For a connection to another node's listener; `None` for one without TLS."""
        return self._dialled.get(listener)


NO_TLS = TlsContexts({})
