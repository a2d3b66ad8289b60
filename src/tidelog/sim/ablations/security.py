"""Safeguards of logins, rights and quotas, and who gets what without them."""

import hmac
from typing import Final

from tidelog.broker.api.checks import Each, Whole
from tidelog.broker.connections import Connections
from tidelog.broker.logins import Logins
from tidelog.security.authorizer import Access
from tidelog.sim.ablations.safeguard import guard_of_cluster

_FAMILY: Final = "secured"

SAFEGUARDS: Final = (
    guard_of_cluster(_FAMILY, "logins-are-demanded", "answers to who has not logged in").replaced(
        Logins, "admits", lambda *_: True
    ),
    guard_of_cluster(_FAMILY, "passwords-are-compared", "logins of who knows a name only").replaced(
        hmac, "compare_digest", lambda *_: True
    ),
    guard_of_cluster(
        _FAMILY, "requests-are-checked", "changes of the cluster by who has no right on it"
    ).replaced(Whole, "apply", lambda *_: None),
    guard_of_cluster(
        _FAMILY, "rows-are-checked", "changes of topics and groups by who has no right on them"
    ).replaced(Each, "apply", lambda *_: None),
    guard_of_cluster(
        _FAMILY, "handlers-ask", "records that are written or read by who has no right to"
    ).replaced(Access, "allows", lambda *_, **__: True),
    guard_of_cluster(
        _FAMILY, "muted-clients-wait", "a client that takes more than its quota"
    ).replaced(Connections, "mute", lambda *_: None),
)
"""Of logins, rights and quotas."""
