"""Which quotas hold for a client: the most specific ones that there are.

| | user | client id | shared by |
| --- | --- | --- | --- |
| 1 | its own | its own | this user with this client id |
| 2 | its own | default | this user with this client id |
| 3 | its own | | this user, whatever its client ids |
| 4 | default | its own | this user with this client id |
| 5 | default | default | this user with this client id |
| 6 | default | | this user, whatever its client ids |
| 7 | | its own | this client id, whatever its users |
| 8 | | default | this client id, whatever its users |

Each name of a quota is looked for by itself: the bytes may be limited on one level, and the
mutations on another. So a default never adds up with what is more specific.

Source: KIP-55; Kafka's `ClientQuotaManager`.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from tidelog.metadata.image import QuotaSubject
from tidelog.metadata.quotas import CLIENT_ID, CLIENT_QUOTAS, CONNECTION, IP, USER


class Share(NamedTuple):
    """Who shares a quota; `None` is any."""

    user: str | None
    client_id: str | None


class Bound(NamedTuple):
    """A quota that holds for a client."""

    value: float
    share: Share


_OWN: Final = "own"
_DEFAULT: Final = "default"
_LEVELS: Final = (
    (_OWN, _OWN),
    (_OWN, _DEFAULT),
    (_OWN, None),
    (_DEFAULT, _OWN),
    (_DEFAULT, _DEFAULT),
    (_DEFAULT, None),
    (None, _OWN),
    (None, _DEFAULT),
)
"""The levels for user and client id, the most specific first."""

Quotas = Mapping[QuotaSubject, Mapping[str, float]]


def bounds_of(quotas: Quotas, user: str, client_id: str) -> dict[str, Bound]:
    """The quotas of a client by their names."""
    found: dict[str, Bound] = {}
    for user_level, client_level in _LEVELS:
        subject = (*_part(CLIENT_ID, client_id, client_level), *_part(USER, user, user_level))
        values = quotas.get(subject)
        if values is None:
            continue
        share = Share(user if user_level else None, client_id if client_level else None)
        for name in CLIENT_QUOTAS:
            if name in values:
                found.setdefault(name, Bound(values[name], share))
    return found


def _part(kind: str, name: str, level: str | None) -> QuotaSubject:
    if level is None:
        return ()
    return ((kind, name if level == _OWN else None),)


def has_client_quotas(quotas: Quotas) -> bool:
    """Whether there is a quota of any user or client id."""
    return any(kind != IP for subject in quotas for kind, _ in subject)


def connection_rate_of(quotas: Quotas, host: str) -> float | None:
    """How many connections a second an address may open; `None` is any number."""
    for name in (host, None):
        value = quotas.get(((IP, name),), {}).get(CONNECTION)
        if value is not None:
            return value
    return None
