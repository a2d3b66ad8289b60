"""The registry: from a listener and a key to the declaration of an API.

It is the one source of what is served: the router dispatches by it, ApiVersions lists it, the
control link finds the API of a message in it, and the reference pages are made by iterating it.
`broker/api/catalogue.py` has the registry of a node; this module knows no API.

Invariants, asserted when a registry is made, so that a fault ends the import: a key is declared
once for each listener; a message of our own nodes has one API; an API has a description; the
version that is sent is served.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Generic

from tidelog.broker.api.answers import NodeT
from tidelog.broker.api.checks import Check
from tidelog.broker.api.declaration import Api, ControllerApi, Listener, MessageT, VersionRange
from tidelog.wire import codec
from tidelog.wire.api import ApiKey

Table = tuple[Api[NodeT] | None, ...]
"""The APIs of one listener, indexed by key: faster than a dictionary of enum members."""

_KEYS: Final = max(ApiKey) + 1


class Registry(Generic[NodeT]):
    """The APIs of a node."""

    def __init__(self, apis: Sequence[Api[NodeT]]) -> None:
        # By key; Fetch is there twice, once for each listener.
        self._apis = tuple(sorted(apis, key=lambda api: api.key))
        # For each kind of listener, what it serves.
        self._tables = {listener: self._table_of(listener) for listener in Listener}
        # By the type of their message, the APIs that our own nodes call.
        self._calls: dict[type, ControllerApi[NodeT, Any, Any]] = {}
        for api in self._apis:
            _check(api)
            if isinstance(api, ControllerApi) and api.sent_version is not None:
                message_type = api.message.value_type
                assert message_type not in self._calls, f"{message_type.__name__} is sent twice"
                self._calls[message_type] = api

    def _table_of(self, listener: Listener) -> Table[NodeT]:
        table: list[Api[NodeT] | None] = [None] * _KEYS
        for api in self._apis:
            if listener in api.listeners:
                assert table[api.key] is None, f"{api.name} is declared twice"
                table[api.key] = api
        return tuple(table)

    def __iter__(self) -> Iterator[Api[NodeT]]:
        """All declarations, by key."""
        return iter(self._apis)

    def table(self, listener: Listener) -> Table[NodeT]:
        """What a listener of this kind serves."""
        return self._tables[listener]

    def advertised(self, listener: Listener) -> dict[ApiKey, VersionRange]:
        """What ApiVersions lists, by key."""
        return {api.key: api.advertised for api in self._tables[listener] if api is not None}

    def call(self, message: MessageT) -> ControllerApi[NodeT, MessageT, Any]:
        """The API that carries a message of our own to another controller."""
        return self._calls[type(message)]

    def load_sent_schemas(self) -> None:
        """Imports the schemas of all that our own nodes send, before a node has turns."""
        for api in self._apis:
            if api.sent_version is not None:
                codec.request_class(api.key, api.sent_version)
                codec.response_class(api.key, api.sent_version)

    def require(self, message_types: Iterable[type]) -> None:
        """Asserts that each of these messages of the controller has an API."""
        carried = {api.message.value_type for api in self._apis if isinstance(api, ControllerApi)}
        missing = [each.__name__ for each in message_types if each not in carried]
        assert not missing, f"no API carries {', '.join(missing)}"


def _check(api: Api[Any]) -> None:
    low, high = api.versions
    assert api.listeners, f"{api.name} is declared for no listener"
    assert all(isinstance(each, Check) for each in api.requires), f"{api.name} asks for no right"
    assert 0 <= low <= high, f"{api.name} has no versions"
    assert api.doc.startswith(f"{api.name} ({api.key:d})"), f"{api.name} does not say what it does"
    assert api.sent_version is None or low <= api.sent_version <= high, f"{api.name} is not served"
    assert api.advertised_from is None or api.advertised_from < low, f"{api.name} lists too little"
