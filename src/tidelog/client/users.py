"""What an administrator asks about users of SCRAM.

A password never leaves this process: the cluster is sent a salt and the salted password, of which
it keeps keys. A user has a credential for each mechanism. Errors that stay are `AdminError`.

Source: KIP-554.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tidelog.client.blocking import Brokers
from tidelog.client.core.calls import request
from tidelog.client.core.errors import check
from tidelog.limits import MIN_SCRAM_ITERATIONS
from tidelog.model import Mechanism, Secret
from tidelog.security.scram_users import deletion, mechanism_name, upsertion
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of

_DRAWN_BYTES: Final = 32
"""Random ones, of which a salt is made."""


@dataclass(frozen=True, slots=True)
class Credential:
    """One mechanism by which a user logs in."""

    user: str
    mechanism: str
    """As Kafka names it; a number where this version does not know it."""
    iterations: int


class Users:
    """Users of SCRAM of a cluster."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    def list(self, names: Sequence[str] = ()) -> list[Credential]:
        """The credentials of these users, or of all, by name. Raises `AdminError` for a user that
        does not exist."""
        wanted = [{"name": name} for name in dict.fromkeys(names)]
        asked = request(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, users=wanted)
        answer = self._brokers.any(asked)
        check(error_of(answer.error_code), answer.error_message, "list users")
        found = []
        for row in answer.results:
            what = f"describe user `{row.user}`"
            check(error_of(row.error_code), row.error_message, what)
            found += [
                Credential(row.user, mechanism_name(int(each.mechanism)), each.iterations)
                for each in row.credential_infos
            ]
        return sorted(found, key=lambda each: (each.user, each.mechanism))

    def add(
        self,
        name: str,
        mechanism: Mechanism,
        password: Secret,
        iterations: int = MIN_SCRAM_ITERATIONS,
    ) -> Credential:
        """Makes a user's credential, in place of one that the user has for the mechanism."""
        drawn = secrets.token_bytes(_DRAWN_BYTES)
        row = upsertion(name, mechanism, password, drawn, iterations)
        self._alter(f"add user `{name}`", upsertions=[row])
        return Credential(name, str(mechanism), iterations)

    def remove(self, name: str, mechanism: Mechanism) -> None:
        """Removes a user's credential. Raises `AdminError` where there is none."""
        self._alter(f"remove user `{name}`", deletions=[deletion(name, mechanism)])

    def _alter(self, what: str, **changes: Any) -> None:
        asked = request(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS, **{"deletions": [], "upsertions": [], **changes}
        )
        for result in self._brokers.any(asked).results:
            check(error_of(result.error_code), result.error_message, what)
