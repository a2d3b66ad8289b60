"""Limits of connections that no single field can hold: of addresses, and of listeners."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tidelog.config.property_types import LISTENER_PREFIX, split_list
from tidelog.config.values import ConnectionsConfig
from tidelog.errors import UsageError

_WITHOUT: Final = 2**31 - 1
_MOST: Final = "max.connections"
_RATE: Final = "max.connection.creation.rate"
_OVERRIDES: Final = "max.connections.per.ip.overrides"
_OVERRIDES_HINT: Final = "write it like `10.0.0.7:100,10.0.0.8:0`"


def resolve_connections(
    settings: Mapping[str, str], common: ConnectionsConfig
) -> ConnectionsConfig:
    """The limits with those of addresses and of listeners. Raises `UsageError`."""
    overrides = {}
    for item in split_list(settings.get(_OVERRIDES, "")):
        host, _, number = item.rpartition(":")
        if not host:
            raise UsageError(f"`{_OVERRIDES}`: `{item}` has no number", _OVERRIDES_HINT)
        overrides[host] = _number(_OVERRIDES, number, _OVERRIDES_HINT)
    if not common.per_ip and not overrides:
        hint = f"give addresses that may connect in `{_OVERRIDES}`"
        raise UsageError("`max.connections.per.ip` is `0`, so no client can connect", hint)
    listeners: dict[str, tuple[int, int]] = {}
    for name, text in settings.items():
        listener, _, inner = name.removeprefix(LISTENER_PREFIX).partition(".")
        if not name.startswith(LISTENER_PREFIX) or inner not in (_MOST, _RATE):
            continue
        most, rate = listeners.get(listener.upper(), (_WITHOUT, _WITHOUT))
        limit = _number(name, text, "give a whole number")
        listeners[listener.upper()] = (limit, rate) if inner == _MOST else (most, limit)
    return replace(common, per_ip_overrides=overrides, listeners=listeners)


def _number(name: str, text: str, hint: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= _WITHOUT):
        raise UsageError(f"`{name}`: `{text}` is not a number of connections", hint)
    return int(text)
