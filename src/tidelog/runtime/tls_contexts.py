"""The TLS contexts of a node: for each listener that it opens, and for each that it dials.

Certificates have an end, and a node runs longer. So a driver calls `reload` from time to time: a
listener whose files have changed gets new contexts, for new connections; those that exist keep
theirs. What cannot work, or would cut the node off (`tls/replacing.py`), changes nothing and is
reported once for each state of the files.

To read a clock of files every ten seconds costs some microseconds. Kafka looks only when the
broker's dynamic configuration changes; here a new file is enough. Stores that the dynamic
configuration has stand in for those of the node's file (`use`).
"""

import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tidelog.config import NodeConfig
from tidelog.config.tls_properties import with_stores
from tidelog.config.values import TlsConfig
from tidelog.errors import UsageError
from tidelog.model import Secret
from tidelog.tls.contexts import client_context, server_context
from tidelog.tls.stores import files_of, read_key_store

_State = tuple[TlsConfig, tuple[tuple[int, int, int], ...]]
"""Of each file its inode, size and time of change; a file that is missing has none."""


class _Made(NamedTuple):
    """What a listener has in force."""

    opened: ssl.SSLContext | None
    """For connections that it accepts; `None` if the node does not open it."""
    dialled: ssl.SSLContext | None
    """For connections to others; `None` if the node does not dial it."""
    chain: str
    """The own certificates, in PEM; empty if no peer is shown any."""


class TlsContexts:
    """Made at the start, so that what cannot work is refused there."""

    def __init__(
        self, tls: Mapping[str, TlsConfig], opened: Iterable[str] = (), dialled: Iterable[str] = ()
    ) -> None:
        """Names of listeners; those that do not use TLS have none. Raises `UsageError`."""
        # As the node's file has it, and with the dynamic configuration: what is to be in force.
        self._static = tls
        self._tls = dict(tls)
        # The state of each listener's files that was last looked at.
        self._states = {name: _state_of(one) for name, one in tls.items()}
        self._roles = frozenset(opened), frozenset(dialled)
        self._made = {name: self._make(name, one) for name, one in tls.items()}

    @classmethod
    def of_node(cls, config: NodeConfig) -> "TlsContexts":
        """Of a node's listeners; it dials brokers and controllers."""
        opened = [endpoint.listener for endpoint in config.listeners]
        dialled = {config.inter_broker_listener_name, config.controller_listener_names[0]}
        return cls(config.tls, opened, dialled)

    def of_opened(self, listener: str) -> ssl.SSLContext | None:
        """For a connection that a listener accepts; `None` for one without TLS."""
        made = self._made.get(listener)
        return None if made is None else made.opened

    def of_dialled(self, listener: str) -> ssl.SSLContext | None:
        """For a connection to another node's listener; `None` for one without TLS."""
        made = self._made.get(listener)
        return None if made is None else made.dialled

    def complaint_about(self, settings: Mapping[str, Secret]) -> str:
        """Why `use` would not take over the stores of these settings; empty if it would."""
        for name, static in self._static.items():
            try:
                tls = with_stores(static, name, settings)
                if tls != static:
                    self._make_instead(name, tls)
            except UsageError as error:
                return f"listener `{name}`: {_text_of(error)}"
        return ""

    def use(self, settings: Mapping[str, Secret]) -> Iterator[tuple[str, str]]:
        """Uses the stores of the dynamic configuration from now on. Gives what `reload` does."""
        for name, static in self._static.items():
            try:
                self._tls[name] = with_stores(static, name, settings)
            except UsageError as error:
                yield name, _text_of(error)
        yield from self.reload()

    def reload(self) -> Iterator[tuple[str, str]]:
        """Takes over what has changed. Gives the names of the listeners that were looked at, each
        with the reason why it keeps what it had; without a reason it has changed."""
        for name, tls in self._tls.items():
            state = _state_of(tls)
            if state == self._states[name]:
                continue
            self._states[name] = state
            try:
                self._made[name] = self._make_instead(name, tls)
            except UsageError as error:
                yield name, _text_of(error)
            else:
                yield name, ""

    def _make(self, name: str, tls: TlsConfig) -> _Made:
        opened, dialled = (name in role for role in self._roles)
        return _Made(
            server_context(tls, name) if opened else None,
            client_context(tls) if dialled else None,
            read_key_store(tls).chain if opened else "",
        )

    def _make_instead(self, name: str, tls: TlsConfig) -> _Made:
        """What may take the place of what is in force. Raises `UsageError`."""
        # It brings `cryptography` along, which takes memory.
        from tidelog.tls.replacing import check_names, check_trust

        old, new = self._made[name], self._make(name, tls)
        if old.opened is not None and new.opened is not None:
            check_names(tls, old.chain, new.chain)
            if old.dialled is not None and new.dialled is not None:
                pairs = [(new.opened, old.dialled), (old.opened, new.dialled)]
                check_trust(pairs, new.chain)
        return new


def _text_of(error: UsageError) -> str:
    return f"{error.message}; hint: {error.hint}"


def _state_of(tls: TlsConfig) -> _State:
    states = []
    for path in files_of(tls):
        with suppress(OSError):
            found = Path(path).stat()
            states.append((found.st_ino, found.st_size, found.st_mtime_ns))
    return tls, tuple(states)


NO_TLS = TlsContexts({})
