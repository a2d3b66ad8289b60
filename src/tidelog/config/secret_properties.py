"""Which properties of a file are secrets: nodes' files and those of clients have the same names.

A password of a trust store is not one of them. The store has certificates only, which everybody may
see.
"""

from collections.abc import Mapping
from typing import Final

SECRET_NAMES: Final = (
    "sasl.jaas.config",
    "delegation.token.secret.key",
    "ssl.keystore.password",
    "ssl.keystore.key",
    "ssl.key.password",
    "sasl.oauthbearer.client.credentials.client.secret",
)
"""Without the prefix of a listener and a mechanism."""


def secrets_in(settings: Mapping[str, str]) -> tuple[str, ...]:
    """The properties that are secrets, in order. A login without an option has none."""
    return tuple(name for name, value in settings.items() if _is_secret(name, value))


def _is_secret(name: str, value: str) -> bool:
    base = next((each for each in SECRET_NAMES if f".{name}".endswith(f".{each}")), None)
    return bool(value.strip()) and base is not None and (base != SECRET_NAMES[0] or "=" in value)
