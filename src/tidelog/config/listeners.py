"""Listeners, advertised listeners and voters: the addresses of a node and of its quorum.

Rules, as in Kafka: listener names are compared in upper case; each name and each port appears
once; what is advertised is never `0.0.0.0`; the inter-broker listener is an advertised one. A
node's controller listeners are among its `listeners`. A node that is only a controller has no
others. A node that is only a broker has none: there `controller.listener.names` is what the
controllers call theirs. One rule is not Kafka's: a port is never 0, because the other nodes could
not learn which port it became.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from tidelog.config.property_types import split_list
from tidelog.config.values import BROKER_ROLE, CONTROLLER_ROLE
from tidelog.errors import UsageError
from tidelog.model import Endpoint, SecurityProtocol

PLAINTEXT: Final = SecurityProtocol.PLAINTEXT.name
_PROTECTED: Final = tuple(each for each in SecurityProtocol.__members__ if each != PLAINTEXT)
_WILDCARDS: Final = ("0.0.0.0", "::")
_LISTENER_HINT: Final = "write it like `PLAINTEXT://localhost:9092`"
_BOTH_ROLES: Final = (BROKER_ROLE, CONTROLLER_ROLE)
_BOOTSTRAP_HINT: Final = "write it like `localhost:9093,localhost:9095,localhost:9097`"
_VOTER_HINT: Final = "write it like `1@localhost:9093,2@localhost:9095,3@localhost:9097`"


class Listeners(NamedTuple):
    """What a node binds, what it advertises, and which listeners are the controller's."""

    bound: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]
    controller_names: tuple[str, ...]
    inter_broker_name: str
    protocols: Mapping[str, SecurityProtocol]
    """Of each of these listeners, and of the controllers' listeners that are on other nodes."""


def resolve_listeners(
    settings: Mapping[str, str], hostname: str, roles: Sequence[str] = _BOTH_ROLES
) -> Listeners:
    """The listeners of a node. `hostname` is advertised for listeners that bind every interface.

    Raises `UsageError` for everything that the rules above forbid.
    """
    bound = _parse_listeners("listeners", settings.get("listeners", "PLAINTEXT://:9092"))
    names = [endpoint.listener for endpoint in bound]
    controllers = _controller_names(settings, names, roles)
    protocols = _protocols(settings, list(dict.fromkeys((*names, *controllers))))
    bound = tuple(replace(e, security_protocol=protocols[e.listener]) for e in bound)
    advertised = _advertise(settings, bound, controllers, hostname)
    inter_broker = ""
    if BROKER_ROLE in roles:
        inter_broker = _inter_broker_name(settings, advertised, controllers)
    return Listeners(bound, advertised, controllers, inter_broker, protocols)


def resolve_voters(settings: Mapping[str, str], listener: str) -> dict[int, Endpoint]:
    """The static voters by node id; none where bootstrap servers lead to the quorum instead.

    Raises `UsageError` for a malformed voter, and where neither property is set.
    """
    text = settings.get("controller.quorum.voters", "")
    if not text.strip():
        if settings.get("controller.quorum.bootstrap.servers", "").strip():
            return {}
        problem = "neither `controller.quorum.voters` nor `controller.quorum.bootstrap.servers` is"
        raise UsageError(f"{problem} set", f"for the voters, {_VOTER_HINT}")
    voters: dict[int, Endpoint] = {}
    for item in split_list(text):
        node_id, separator, address = item.partition("@")
        if not separator or not (node_id.isascii() and node_id.isdigit()):
            raise UsageError(f"`controller.quorum.voters`: `{item}` is not a voter", _VOTER_HINT)
        host, port = _parse_address("controller.quorum.voters", item, address, _VOTER_HINT)
        if not host or int(node_id) in voters:
            problem = "has no host" if not host else "names a node id twice"
            raise UsageError(f"`controller.quorum.voters`: `{item}` {problem}", _VOTER_HINT)
        voters[int(node_id)] = Endpoint(listener, host, port)
    return voters


def resolve_bootstrap_servers(settings: Mapping[str, str], listener: str) -> tuple[Endpoint, ...]:
    """Servers that know the leader of the quorum; raises `UsageError` for a malformed address."""
    name = "controller.quorum.bootstrap.servers"
    found = []
    for item in split_list(settings.get(name, "")):
        host, port = _parse_address(name, item, item, _BOOTSTRAP_HINT)
        if not host:
            raise UsageError(f"`{name}`: `{item}` has no host", _BOOTSTRAP_HINT)
        found.append(Endpoint(listener, host, port))
    return tuple(found)


def _parse_listeners(name: str, text: str) -> tuple[Endpoint, ...]:
    endpoints = tuple(_parse_listener(name, item) for item in split_list(text))
    if not endpoints:
        raise UsageError(f"`{name}` is empty", _LISTENER_HINT)
    names = [endpoint.listener for endpoint in endpoints]
    for listener in names:
        if names.count(listener) > 1:
            hint = "give each listener a name of its own in `listener.security.protocol.map`"
            raise UsageError(f"`{name}`: the listener name `{listener}` appears twice", hint)
    return endpoints


def _parse_listener(name: str, item: str) -> Endpoint:
    listener, separator, address = item.partition("://")
    if not separator or not listener.strip():
        raise UsageError(f"`{name}`: `{item}` is not a listener", _LISTENER_HINT)
    host, port = _parse_address(name, item, address, _LISTENER_HINT)
    return Endpoint(listener.strip().upper(), host, port)


def _parse_address(name: str, item: str, address: str, hint: str) -> tuple[str, int]:
    host, separator, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not separator or not (port.isascii() and port.isdigit()) or (":" in host and not bracketed):
        raise UsageError(f"`{name}`: `{item}` has no host and port", hint)
    if not 1 <= int(port) <= 65_535:
        hint = "choose a port from 1 to 65535; port 0 is not supported"
        raise UsageError(f"`{name}`: the port of `{item}` is out of range", hint)
    return host.strip("[]"), int(port)


def _controller_names(
    settings: Mapping[str, str], bound: list[str], roles: Sequence[str]
) -> tuple[str, ...]:
    text = settings.get("controller.listener.names", "")
    names = tuple(name.upper() for name in split_list(text))
    if not names:
        hint = "add `controller.listener.names=CONTROLLER` and a CONTROLLER entry in `listeners`"
        raise UsageError("`controller.listener.names` is missing", hint)
    is_broker, is_controller = BROKER_ROLE in roles, CONTROLLER_ROLE in roles
    shared = [name for name in names if name in bound]
    elsewhere = [name for name in names if name not in bound]
    others = [name for name in bound if name not in names]
    if not is_controller and shared:
        problem = f"`process.roles` is `broker`, and `listeners` has `{shared[0]}`"
        hint = "take it away, or set `process.roles=broker,controller`"
        raise UsageError(f"{problem} of `controller.listener.names`", hint)
    if is_controller and elsewhere:
        name = elsewhere[0]
        hint = f"add `{name}://host:port` to `listeners`, or take the name away"
        raise UsageError(f"`controller.listener.names`: `{name}` is not in `listeners`", hint)
    if not is_broker and others:
        problem = f"`process.roles` is `controller`, and `listeners` has `{others[0]}`"
        hint = "take it away, add it to `controller.listener.names`, or add `broker`"
        raise UsageError(f"{problem}, which is not a controller listener", hint)
    if is_broker and is_controller and len(names) == len(bound):
        hint = "add a listener for clients, like `PLAINTEXT://localhost:9092`"
        raise UsageError("`listeners` has nothing but controller listeners", hint)
    return names


def _protocols(settings: Mapping[str, str], names: list[str]) -> dict[str, SecurityProtocol]:
    """The protocol of each listener. Without a map a listener that is named like a protocol has
    that one, and every other has PLAINTEXT, unless one is named like a protocol that protects:
    then the others must be named too."""
    text = settings.get("listener.security.protocol.map")
    if text is None and any(name in _PROTECTED for name in names):
        text = ",".join(f"{name}:{name}" for name in SecurityProtocol.__members__)
    unwritten = SecurityProtocol.__members__ if text is None else (PLAINTEXT,)
    written = dict(zip(unwritten, unwritten, strict=True))
    for item in split_list(text or ""):
        name, separator, protocol = item.partition(":")
        if not separator:
            hint = "write it like `CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT`"
            raise UsageError(f"`listener.security.protocol.map`: `{item}` has no protocol", hint)
        written[name.strip().upper()] = protocol.strip().upper()
    protocols = {}
    for name in names:
        text_of_one = written.get(name, PLAINTEXT if text is None else "")
        if not text_of_one:
            hint = f"add `{name}:PLAINTEXT` to it"
            raise UsageError(f"`listener.security.protocol.map` does not name `{name}`", hint)
        protocols[name] = _served(name, text_of_one)
    return protocols


def _served(listener: str, text: str) -> SecurityProtocol:
    """The protocol with this name."""
    if text not in SecurityProtocol.__members__:
        hint = f"use one of {', '.join(SecurityProtocol.__members__)}"
        raise UsageError(f"the listener `{listener}` asks for `{text}`", hint)
    return SecurityProtocol[text]


def _advertise(
    settings: Mapping[str, str],
    bound: tuple[Endpoint, ...],
    controllers: tuple[str, ...],
    hostname: str,
) -> tuple[Endpoint, ...]:
    given = settings.get("advertised.listeners")
    if given is None:
        by_name = {endpoint.listener: endpoint for endpoint in bound}
    else:
        by_name = {e.listener: e for e in _parse_listeners("advertised.listeners", given)}
    for name in by_name:
        if name not in [endpoint.listener for endpoint in bound]:
            hint = "advertise only listeners that `listeners` binds"
            raise UsageError(f"`advertised.listeners`: `{name}` is not in `listeners`", hint)
    result = []
    for endpoint in bound:
        advertised = by_name.get(endpoint.listener)
        if advertised is None and endpoint.listener not in controllers:
            continue
        reached = _reachable(advertised or endpoint, hostname)
        result.append(replace(reached, security_protocol=endpoint.security_protocol))
    return tuple(result)


def _reachable(endpoint: Endpoint, hostname: str) -> Endpoint:
    if endpoint.host in _WILDCARDS:
        hint = "set `advertised.listeners` to an address that clients can connect to"
        raise UsageError(f"`{endpoint}` cannot be advertised: it is not an address", hint)
    host = endpoint.host or hostname
    return replace(endpoint, host=host)


def _inter_broker_name(
    settings: Mapping[str, str], advertised: tuple[Endpoint, ...], controllers: tuple[str, ...]
) -> str:
    names = [e.listener for e in advertised if e.listener not in controllers]
    given = settings.get("inter.broker.listener.name")
    protocol = settings.get("security.inter.broker.protocol")
    if given is not None and protocol is not None:
        problem = "`inter.broker.listener.name` and `security.inter.broker.protocol` are both set"
        raise UsageError(problem, "remove `security.inter.broker.protocol`")
    wanted = (protocol or PLAINTEXT).upper()
    if given is not None and given.upper() not in names:
        hint = f"use one of {', '.join(names)}"
        problem = f"`inter.broker.listener.name`: `{given}` is not an advertised broker listener"
        raise UsageError(problem, hint)
    if given is not None:
        return given.upper()
    if wanted not in names:
        hint = f"set `inter.broker.listener.name` to one of {', '.join(names)}"
        raise UsageError(f"no broker listener is called `{wanted}`", hint)
    return wanted
