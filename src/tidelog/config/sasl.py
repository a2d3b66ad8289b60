"""What logins obey: mechanisms, JAAS strings and times of each listener that asks for a login.

A property may be set for one listener, `listener.name.{listener}.{property}`, which beats the plain
one; a JAAS string is set for a mechanism of a listener,
`listener.name.{listener}.{mechanism}.sasl.jaas.config`, in small letters. The string has the users
that log in here and the name with which this node logs in at that listener of others. A plain
`sasl.jaas.config` counts for no listener, as in Kafka.

Kafka's default mechanism is GSSAPI, which is not served, so a listener with logins needs its
mechanisms named.

Left out: what a JAAS string says, which `security/jaas.py` reads.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from tidelog.config.property_types import listener_prefix, split_list, without_prefixes
from tidelog.config.token_properties import resolve_token_origin, resolve_token_rules
from tidelog.config.values import JaasSetting, ListenerSasl, NodeConfig
from tidelog.errors import UsageError
from tidelog.model import Mechanism, Secret

_DEFAULT: Final = "GSSAPI"
_ENABLED: Final = "sasl.enabled.mechanisms"
_JAAS: Final = "sasl.jaas.config"
_REAUTHENTICATION: Final = "connections.max.reauth.ms"
INTER_BROKER_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
CONTROLLER_MECHANISM: Final = "sasl.mechanism.controller.protocol"


_SHOWN: Final = (Mechanism.PLAIN, Mechanism.OAUTHBEARER)
"""By which a client shows its password or token itself."""


def shown_in_the_clear(config: NodeConfig) -> tuple[str, ...]:
    """The listeners without TLS at which a password or a token crosses the network as it is, each
    with the mechanism: `CLIENTS:PLAIN`."""
    return tuple(
        f"{listener}:{mechanism}"
        for listener, sasl in config.sasl.items()
        if not config.security_protocols[listener].uses_tls
        for mechanism in _SHOWN
        if mechanism in sasl.mechanisms or mechanism is sasl.own_mechanism
    )


def resolve_sasl(
    settings: Mapping[str, str], bound: Sequence[str], own: Mapping[str, str]
) -> dict[str, ListenerSasl]:
    """What holds for the listeners with logins, by name: those that are bound here, and those of
    other nodes at which this one logs in (`own`), with the property that names its mechanism.
    Raises `UsageError`."""
    found = {}
    for listener in dict.fromkeys((*bound, *own)):
        mechanisms = _enabled(settings, listener) if listener in bound else ()
        own_mechanism = None
        if listener in own:
            setting = own[listener]
            own_mechanism = parse_mechanism(settings.get(setting, _DEFAULT), setting)
            if mechanisms and own_mechanism not in mechanisms:
                problem = f"the listener `{listener}` does not accept"
                hint = f"add it to `{_ENABLED}` of the listener"
                raise UsageError(f"`{setting}` is `{own_mechanism}`, which {problem}", hint)
        used = (*mechanisms, own_mechanism) if own_mechanism else mechanisms
        jaas = {each: _jaas(settings, listener, each) for each in used}
        bearer = listener_prefix(listener, Mechanism.OAUTHBEARER)
        of_bearer = without_prefixes(settings, listener_prefix(listener), bearer)
        takes_tokens = Mechanism.OAUTHBEARER in mechanisms
        shows_token = own_mechanism is Mechanism.OAUTHBEARER
        found[listener] = ListenerSasl(
            mechanisms,
            {each: setting for each, setting in jaas.items() if setting is not None},
            {each: _session_ms(settings, listener, each) for each in mechanisms},
            own_mechanism,
            resolve_token_rules(of_bearer, listener) if takes_tokens else None,
            resolve_token_origin(of_bearer, bearer) if shows_token else None,
        )
    return found


def parse_mechanism(text: str, setting: str) -> Mechanism:
    """The mechanism that a setting names. Raises `UsageError`."""
    name = text.strip()
    if name in map(str, Mechanism):
        return Mechanism(name)
    is_default = name == _DEFAULT
    why = "Kafka's default, which is not served here" if is_default else "not a SASL mechanism"
    raise UsageError(f"`{setting}` is `{name}`, {why}", f"use one of {', '.join(Mechanism)}")


def _enabled(settings: Mapping[str, str], listener: str) -> tuple[Mechanism, ...]:
    own = listener_prefix(listener) + _ENABLED
    name = own if own in settings else _ENABLED
    mechanisms = [parse_mechanism(m, name) for m in split_list(settings.get(name, _DEFAULT))]
    if not mechanisms:
        raise UsageError(f"`{name}` is empty", f"use some of {', '.join(Mechanism)}")
    return tuple(dict.fromkeys(mechanisms))


def _jaas(settings: Mapping[str, str], listener: str, mechanism: Mechanism) -> JaasSetting | None:
    name = listener_prefix(listener, mechanism) + _JAAS
    text = settings.get(name)
    return None if text is None else JaasSetting(name, Secret(text))


def _session_ms(settings: Mapping[str, str], listener: str, mechanism: Mechanism) -> int:
    for before in (listener_prefix(listener, mechanism), listener_prefix(listener), ""):
        name = before + _REAUTHENTICATION
        if name in settings:
            text = settings[name].strip()
            if not (text.isascii() and text.isdigit()):
                problem = f"`{name}` is `{text[:40]}`, not a number of milliseconds"
                raise UsageError(problem, "0 ends no session")
            return int(text)
    return 0
