"""TLS and logins among the options of source and sink: Kafka's client properties behind `kafka.`.

    kafka.security.protocol   kafka.sasl.mechanism   kafka.sasl.jaas.config   kafka.ssl.…

The official connector has the same names, and values mean what they mean to Kafka's clients
(`client/security_options.py`). A property of another protocol than the chosen one is refused,
because it would have no effect.
"""

from collections.abc import Mapping
from typing import Final

from tidelog.client.security_options import LOGIN, PLAINTEXT, PROTOCOL, TOKEN_LOGIN, ClientSecurity
from tidelog.errors import UsageError

PREFIX: Final = "kafka."
_OF_SERVERS: Final = ("ssl.client.auth", "ssl.principal", "ssl.allow")
_FAMILIES: Final = tuple(f"{PREFIX}{family}." for family in ("security", "sasl", "ssl"))


def split_security(options: Mapping[str, str]) -> tuple[ClientSecurity, dict[str, str]]:
    """What connections obey, and the options that say other things. Names are compared without
    regard to case. Raises `UsageError`."""
    settings: dict[str, str] = {}
    others: dict[str, str] = {}
    for name, value in options.items():
        if not name.lower().startswith(_FAMILIES):
            others[name] = value
        elif settings.setdefault(name.lower().removeprefix(PREFIX), value) != value:
            raise UsageError(f"`{name}` is given twice, with different values", "give it once")
    if not settings:
        return PLAINTEXT, others
    security = ClientSecurity(settings)
    for name in settings:
        _check(name, security)
    return security, others


def as_options(settings: Mapping[str, str]) -> dict[str, str]:
    """The options of source and sink for the connection that a properties file describes."""
    named = {f"{PREFIX}{name}": value for name, value in settings.items()}
    return {name: value for name, value in named.items() if name.startswith(_FAMILIES)}


def _check(name: str, security: ClientSecurity) -> None:
    if name == PROTOCOL:
        return
    # It takes a moment to import, and most queries are without protection.
    from tidelog.config.tls_properties import TLS

    is_login, protocol = name.startswith("sasl."), security.protocol
    of_login = (*LOGIN, *TOKEN_LOGIN)
    known = of_login if is_login else [one for one in TLS if not one.startswith(_OF_SERVERS)]
    if name not in known:
        raise UsageError(
            f"`{PREFIX}{name}` is not known",
            f"those of this kind are {', '.join(f'`{PREFIX}{one}`' for one in known)}",
        )
    if not (protocol.uses_sasl if is_login else protocol.uses_tls):
        raise UsageError(
            f"`{PREFIX}{name}` has no effect with `{PREFIX}{PROTOCOL}` `{protocol.name}`",
            f"leave it out, or give another `{PREFIX}{PROTOCOL}`",
        )
    if name in TOKEN_LOGIN and not security.takes_token:
        raise UsageError(
            f"`{PREFIX}{name}` has no effect without a login by OAUTHBEARER",
            f"leave it out, or give `{PREFIX}sasl.mechanism` `OAUTHBEARER`",
        )
