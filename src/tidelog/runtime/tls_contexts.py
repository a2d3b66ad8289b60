"""The TLS contexts of a node: for each listener that it opens, and for each that it dials.

Certificates have an end, and a node runs longer. So a driver calls `reload` from time to time: a
listener whose files have changed gets new contexts, for new connections; those that exist keep
theirs. What cannot work, or would cut the node off (`tls/replacing.py`), changes nothing and is
reported once for each state of the files.

To read a clock of files every ten seconds costs some microseconds. Kafka looks only when the
broker's dynamic configuration changes; here a new file is enough.
"""

import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from tidelog.config import NodeConfig
from tidelog.config.values import TlsConfig
from tidelog.errors import UsageError
from tidelog.tls.contexts import client_context, server_context
from tidelog.tls.stores import files_of, read_key_store

_State = tuple[tuple[int, int, int], ...]
"""Of each file its inode, size and time of change; a file that is missing has none."""


class TlsContexts:
    """Made at the start, so that what cannot work is refused there."""

    def __init__(
        self, tls: Mapping[str, TlsConfig], opened: Iterable[str] = (), dialled: Iterable[str] = ()
    ) -> None:
        """Names of listeners; those that do not use TLS have none. Raises `UsageError`."""
        self._tls = tls
        # The state of each listener's files that was last looked at.
        self._states = {name: _state_of(one) for name, one in tls.items()}
        # By the names of the listeners that this node opens, and of those that it dials.
        self._opened = {name: server_context(tls[name], name) for name in opened if name in tls}
        self._dialled = {name: client_context(tls[name]) for name in dialled if name in tls}
        # The own certificates of those with files, in PEM, as they are in use.
        self._own = {
            name: read_key_store(tls[name]).chain for name in self._opened if files_of(tls[name])
        }

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

    def reload(self) -> Iterator[tuple[str, str]]:
        """Takes over what has changed. Gives the names of the listeners that were looked at, each
        with the reason why it keeps what it had; without a reason it has changed."""
        for name, tls in self._tls.items():
            state = _state_of(tls)
            if state == self._states[name]:
                continue
            self._states[name] = state
            try:
                self._replace(name, tls)
            except UsageError as error:
                yield name, f"{error.message}; hint: {error.hint}"
            else:
                yield name, ""

    def _replace(self, name: str, tls: TlsConfig) -> None:
        # It brings `cryptography` along, which takes memory.
        from tidelog.tls.replacing import check_names, check_trust

        opened, dialled = self._opened.get(name), self._dialled.get(name)
        new_opened = None if opened is None else server_context(tls, name)
        new_dialled = None if dialled is None else client_context(tls)
        if opened is not None and new_opened is not None:
            own = read_key_store(tls).chain
            check_names(tls, self._own[name], own)
            if dialled is not None and new_dialled is not None:
                check_trust([(new_opened, dialled), (opened, new_dialled)], own)
            self._own[name], self._opened[name] = own, new_opened
        if new_dialled is not None:
            self._dialled[name] = new_dialled


def _state_of(tls: TlsConfig) -> _State:
    states = []
    for path in files_of(tls):
        with suppress(OSError):
            found = Path(path).stat()
            states.append((found.st_ino, found.st_size, found.st_mtime_ns))
    return tuple(states)


NO_TLS = TlsContexts({})
