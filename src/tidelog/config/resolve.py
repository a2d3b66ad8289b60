"""From names and texts to the frozen values: a node's file, a topic's overrides.

Precedence of a topic's value: its own override, the dynamic broker values
(`apply_broker_overrides`), then `NodeConfig.log`, which holds the file's synonyms or the defaults.
Errors: `UsageError` for a node (start-up, exit code 2), `ProtocolError(INVALID_CONFIG)` for a topic
or a dynamic broker value (a client's fault).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from tidelog.config.connection_limits import resolve_connections
from tidelog.config.dynamic_properties import (
    DYNAMIC_PROPERTIES,
    PRODUCER_EXPIRATION,
    dynamic_property,
)
from tidelog.config.group_properties import GROUP_PROPERTIES
from tidelog.config.known_names import (
    KNOWN_NAMES,
    KNOWN_PREFIXES,
    MIGRATION,
    REMOVED_NAMES,
    ignored,
    without_effect,
)
from tidelog.config.listeners import (
    Listeners,
    resolve_bootstrap_servers,
    resolve_listeners,
    resolve_voters,
)
from tidelog.config.node_properties import NODE_PROPERTIES
from tidelog.config.property_types import (
    SECTIONS,
    BadValue,
    Property,
    PropertyType,
    Value,
    field_default,
    parse_value,
    split_list,
    value_text,
)
from tidelog.config.roles import check_membership, resolve_roles
from tidelog.config.sasl import CONTROLLER_MECHANISM, INTER_BROKER_MECHANISM, resolve_sasl
from tidelog.config.tls_properties import TLS, resolve_listener_tls
from tidelog.config.topic_properties import INTERNAL_SEGMENT_BYTES, TOPIC_PROPERTIES, TOPIC_SYNONYMS
from tidelog.config.values import STANDARD_AUTHORIZER, ListenerSasl, LogConfig, NodeConfig
from tidelog.errors import ErrorCode, ProtocolError, UsageError
from tidelog.model import HIDDEN, Secret

USED: Final[dict[str, Property]] = {
    **NODE_PROPERTIES,
    **{name: prop for name, (prop, _) in TOPIC_SYNONYMS.items()},
}
"""Every node property with an effect here; synonyms of one another by falling precedence."""

_NO_NAMES_OF_OTHERS: Final = ("tidelog.", "listener.name.")
"""Beginnings of names that no part of the operator's own reads: an unknown one is a typo."""

_LOOK_IT_UP: Final = "remove it, or look the name up in Kafka's broker configuration reference"

_NOT_ABOVE: Final = (
    ("broker.heartbeat.interval.ms", "broker.session.timeout.ms"),
    ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
    ("replica.fetch.wait.max.ms", "replica.socket.timeout.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
    ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"),
)
"""What would contradict itself if the first were more than the second."""


def parse_node_config(settings: Mapping[str, str], *, hostname: str = "localhost") -> NodeConfig:
    """A node's configuration from the properties of its file.

    `hostname` is advertised for a listener that binds every interface and has no advertised
    listener. Unknown names are listed in `NodeConfig.unknown` and do nothing, as with Kafka. Raises
    `UsageError` for bad values, contradictions, and unknown names that begin as only ours do.
    """
    require_known(name for name in settings if name.startswith(_NO_NAMES_OF_OTHERS))
    if settings.get(MIGRATION, "").strip().lower() == "true":
        raise UsageError(f"`{MIGRATION}` is `true`", "end the migration from ZooKeeper with Kafka")
    sections = _resolve_sections(settings)
    sections["connections"] = resolve_connections(settings, sections["connections"])
    token_secret = Secret(settings.get("delegation.token.secret.key", "").strip())
    sections["controller"] = replace(sections["controller"], token_secret=token_secret)
    roles = resolve_roles(settings)
    listeners = resolve_listeners(settings, hostname, roles)
    voters = resolve_voters(settings, listeners.controller_names[0])
    config = NodeConfig(
        node_id=_node_id(settings),
        log_dir=(directories := _log_dirs(settings))[0],
        listeners=listeners.bound,
        advertised_listeners=listeners.advertised,
        controller_listener_names=listeners.controller_names,
        inter_broker_listener_name=listeners.inter_broker_name,
        security_protocols=listeners.protocols,
        tls=resolve_listener_tls(settings, listeners.protocols),
        sasl=_resolve_sasl(settings, listeners),
        voters=voters,
        roles=roles,
        bootstrap_servers=resolve_bootstrap_servers(settings, listeners.controller_names[0]),
        rack=settings.get("broker.rack") or None,
        more_log_dirs=directories[1:],
        metadata_dir_takes_logs=directories[0] in _named_log_dirs(settings),
        metrics_port=int(port) if (port := settings.get("tidelog.metrics.port")) else None,
        settings=_shown(settings),
        without_effect=without_effect(settings),
        ignored=ignored(settings),
        unknown={name: _advice(name) for name in sorted(settings) if not _is_known(name)},
        **sections,
    )
    _check_contradictions(config, settings)
    return config


def _resolve_sasl(settings: Mapping[str, str], listeners: Listeners) -> dict[str, ListenerSasl]:
    protocols, own = listeners.protocols, {}
    bound = [e.listener for e in listeners.bound if protocols[e.listener].uses_sasl]
    # The first of the controllers' listeners is the one that nodes connect to.
    if listeners.inter_broker_name in bound:
        own[listeners.inter_broker_name] = INTER_BROKER_MECHANISM
    if protocols[listeners.controller_names[0]].uses_sasl:
        own[listeners.controller_names[0]] = CONTROLLER_MECHANISM
    return resolve_sasl(settings, bound, own)


def _shown(settings: Mapping[str, str]) -> dict[str, str]:
    """The properties with an effect, as they were written; of a secret only that it is there."""
    return {
        name: HIDDEN if USED[name].type is PropertyType.PASSWORD else value
        for name, value in settings.items()
        if name in USED
    }


def resolve_topic_config(overrides: Mapping[str, str], defaults: LogConfig) -> LogConfig:
    """What a topic with these overrides obeys; unknown names and values that no longer parse
    are ignored, because they were validated when they were set."""
    changes: dict[str, Any] = {}
    for name, text in overrides.items():
        prop = _topic_property(name)
        if prop is None or not prop.fields:
            continue
        try:
            changes[_log_field(prop)] = parse_value(prop, text)
        except BadValue:
            continue
    return replace(defaults, **changes) if changes else defaults


def validate_topic_config(name: str, value: str | None) -> None:
    """Raises `ProtocolError(INVALID_CONFIG)` unless a topic may have this override."""
    prop = _topic_property(name)
    if prop is None:
        raise ProtocolError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
    _validate(prop, name, value)


def validate_broker_config(name: str, value: str | None) -> None:
    """Raises `ProtocolError(INVALID_CONFIG)` unless this may be set on running brokers.

    `dynamic_properties` lists which ones may.
    """
    prop = dynamic_property(name)
    if prop is None:
        known = name in USED or name in KNOWN_NAMES
        text = "Cannot update these configs dynamically" if known else "Unknown broker config name"
        raise ProtocolError(ErrorCode.INVALID_CONFIG, f"{text}: {name}")
    _validate(prop, name, value)


def validate_group_config(name: str, value: str | None) -> None:
    """Raises `ProtocolError(INVALID_CONFIG)` unless a group may have this value."""
    prop = GROUP_PROPERTIES.get(name)
    if prop is None:
        raise ProtocolError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name}")
    _validate(prop, name, value)


def apply_broker_overrides(defaults: LogConfig, overrides: Mapping[str, str]) -> LogConfig:
    """`NodeConfig.log` under dynamic broker values, given by their broker names."""
    if not overrides:
        # The usual case, at every change of the metadata.
        return defaults
    changes: dict[str, Any] = {}
    for of_topics in TOPIC_PROPERTIES.values():
        for name, _ in reversed(of_topics.synonyms):
            if name in overrides and of_topics.fields:
                prop = TOPIC_SYNONYMS[name][0]
                changes[_log_field(prop)] = _scaled(prop, parse_value(prop, overrides[name]))
    if PRODUCER_EXPIRATION in overrides:
        prop = DYNAMIC_PROPERTIES[PRODUCER_EXPIRATION]
        changes["producer_id_expiration_ms"] = parse_value(prop, overrides[PRODUCER_EXPIRATION])
    return replace(defaults, **changes) if changes else defaults


def _log_field(prop: Property) -> str:
    """The field of `LogConfig` that the property sets."""
    return prop.fields[0].removeprefix("log.")


def _topic_property(name: str) -> Property | None:
    internal = name == INTERNAL_SEGMENT_BYTES.name
    return INTERNAL_SEGMENT_BYTES if internal else TOPIC_PROPERTIES.get(name)


def _validate(prop: Property, name: str, value: str | None) -> None:
    try:
        if value is None:
            raise BadValue("must not be null")
        parse_value(prop, value)
    except BadValue as error:
        text = f"Invalid value {value} for configuration {name}: {error}"
        raise ProtocolError(ErrorCode.INVALID_CONFIG, text) from None


def require_known(names: Iterable[str]) -> None:
    """Raises `UsageError` for the first name that nothing here and nothing of Kafka 4.3 reads: a
    property that is given to a command is used or refused."""
    for name in names:
        if name in REMOVED_NAMES:
            raise UsageError(f"`{name}` was removed in Kafka 4", REMOVED_NAMES[name])
        if not _is_known(name):
            raise UsageError(f"unknown property `{name}`", _advice(name) or _LOOK_IT_UP)


def _is_known(name: str) -> bool:
    if name in USED or name in KNOWN_NAMES:
        return True
    _, separator, inner = name.partition(".ssl.")
    of_tls = f"ssl.{inner}"
    return name.startswith(KNOWN_PREFIXES) and (
        not separator or of_tls in TLS or of_tls in KNOWN_NAMES
    )


def _advice(name: str) -> str:
    """What the operator may have meant by an unknown name; empty for one that is like no other."""
    from difflib import get_close_matches  # takes some ms, and only a typo needs it

    if name in REMOVED_NAMES:
        return REMOVED_NAMES[name]
    if name in TOPIC_PROPERTIES:
        synonyms = TOPIC_PROPERTIES[name].synonyms
        if synonyms:
            return f"that is the topic's name for it; in a node's file it is `{synonyms[0].name}`"
    _, is_of_listener, inner = name.partition(".ssl.")
    wanted = f"ssl.{inner}" if is_of_listener else name
    matches = get_close_matches(wanted, [*USED, *KNOWN_NAMES], n=1, cutoff=0.75)
    return f"did you mean `{matches[0]}`?" if matches else ""


def _resolve_sections(settings: Mapping[str, str]) -> dict[str, Any]:
    # Any: the table ties a field's type to its property's, which a type checker cannot see.
    changes: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    for name in reversed(USED):
        # What has precedence is written last.
        if name in settings:
            value = parse_setting(name, settings[name])
            for path in USED[name].fields:
                section, field = path.split(".")
                changes[section][field] = value
    return {name: SECTIONS[name](**changes[name]) for name in SECTIONS}


def parse_setting(name: str, text: str) -> Value:
    """The value of a used node property, in the unit of its field; raises `UsageError`."""
    prop = USED[name]
    try:
        return _scaled(prop, parse_value(prop, text))
    except BadValue as error:
        raise UsageError(f"`{name}` is `{text}`, but it {error}", _hint(prop)) from None


def _scaled(prop: Property, value: Value) -> Value:
    if prop.scale == 1:
        return value
    assert isinstance(value, int)
    # A negative number of hours is "no bound", whatever the unit.
    return value * prop.scale if value >= 0 else -1


def _hint(prop: Property) -> str:
    default = default_text(prop)
    return prop.doc if default is None else f"{prop.doc} The default is `{default}`."


def default_text(prop: Property) -> str | None:
    """The text of a node property's default; `None` when there is none."""
    if prop.default is not None or not prop.fields:
        return prop.default
    value = field_default(prop.fields[0])
    return value_text(value if prop.scale == 1 else int(value) // prop.scale)


def _node_id(settings: Mapping[str, str]) -> int:
    ids = [int(settings[name]) for name in ("node.id", "broker.id") if settings.get(name)]
    if not ids:
        raise UsageError("`node.id` is missing", "add `node.id=1`, another number on each node")
    if len(set(ids)) > 1:
        problem = f"`node.id` is `{ids[0]}` and `broker.id` is `{ids[1]}`"
        raise UsageError(problem, "remove `broker.id`, the old name of the same thing")
    return ids[0]


def _named_log_dirs(settings: Mapping[str, str]) -> tuple[str, ...]:
    directories = split_list(settings.get("log.dirs") or settings.get("log.dir") or "")
    if not directories:
        raise UsageError("`log.dirs` is missing", "add `log.dirs=data`, the data directory")
    for directory in directories:
        if directories.count(directory) > 1:
            problem = f"`log.dirs` names `{directory}` more than once"
            raise UsageError(problem, "name each directory once")
    return tuple(directories)


def _log_dirs(settings: Mapping[str, str]) -> tuple[str, ...]:
    """All directories, that of the metadata log first."""
    named = _named_log_dirs(settings)
    first = settings.get("metadata.log.dir") or named[0]
    return (first, *(each for each in named if each != first))


def _check_contradictions(config: NodeConfig, settings: Mapping[str, str]) -> None:
    check_membership(config)
    _check_authorization(config)
    if 0 < config.broker.max_queued_bytes < config.broker.max_request_bytes:
        raise UsageError(
            f"`queued.max.request.bytes` is `{config.broker.max_queued_bytes}`, less than "
            f"`socket.request.max.bytes`, which is `{config.broker.max_request_bytes}`",
            "raise the first or lower the second",
        )
    for low, high in _NOT_ABOVE:
        less, more = _obeyed(config, low), _obeyed(config, high)
        if less > more:
            problem = f"`{low}` is `{less}`, more than `{high}`, which is `{more}`"
            raise UsageError(problem, f"lower `{low}` or raise `{high}`")


def _check_authorization(config: NodeConfig) -> None:
    rules = config.authorization
    if rules.authorizer_class not in ("", STANDARD_AUTHORIZER):
        problem = (
            f"`authorizer.class.name` is `{rules.authorizer_class}`, which does not exist here"
        )
        raise UsageError(problem, f"use `{STANDARD_AUTHORIZER}`")
    for user in filter(None, rules.super_users.split(";")):
        if ":" not in user:
            problem = f"`super.users` names `{user}`, which is not a principal"
            raise UsageError(problem, f"write `User:{user}`, and `;` between principals")


def _obeyed(config: NodeConfig, name: str) -> int:
    section, field = NODE_PROPERTIES[name].fields[0].split(".")
    value: int = getattr(getattr(config, section), field)
    return value
