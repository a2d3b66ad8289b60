"""Where one connection stands on its way to a login. `logins.py` moves it.

| phase | what the client may send |
| --- | --- |
| NEW | ApiVersions, SaslHandshake |
| GREETED | SaslHandshake: ApiVersions was answered |
| TOKENS | SaslAuthenticate: a mechanism is chosen |
| RAW_TOKENS | the mechanism's messages without headers, after SaslHandshake 0 |
| READY | everything, until the session ends; then SaslHandshake |
| REFUSED | nothing: its answer waits for the delay, then the connection is closed |

Source: KIP-43, KIP-152, KIP-368; Kafka's `SaslServerAuthenticator`.
"""

from dataclasses import dataclass
from enum import Enum

from tidelog.env.instant import NEVER, Instant
from tidelog.model import Mechanism
from tidelog.security.listener_logins import ListenerLogins
from tidelog.security.sasl import SaslServer


class Phase(Enum):
    """See the module's table."""

    NEW = "new"
    GREETED = "greeted"
    TOKENS = "tokens"
    RAW_TOKENS = "raw tokens"
    READY = "ready"
    REFUSED = "refused"


@dataclass(slots=True, eq=False)
class Login:
    """The login of one connection."""

    # Who may log in at its listener.
    of_listener: ListenerLogins
    # When the connection was opened.
    opened_at: Instant
    phase: Phase = Phase.NEW
    # The dialogue under way, and its mechanism.
    server: SaslServer | None = None
    mechanism: Mechanism | None = None
    # The mechanism of the first login; `None` before it.
    first_mechanism: Mechanism | None = None
    # When the newest login began.
    began_at: Instant = NEVER
    # When the session ends; `None`: it does not, or there is none yet.
    expires_at: Instant | None = None

    @property
    def is_again(self) -> bool:
        """Whether the client has logged in before."""
        return self.first_mechanism is not None

    @property
    def is_ready(self) -> bool:
        """Whether requests of all kinds are served."""
        return self.phase is Phase.READY
