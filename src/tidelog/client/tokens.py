"""Where a client has its token of OAUTHBEARER from: a file, or the token endpoint of the issuer.

A file holds a token, which another program keeps fresh. At the endpoint the client shows its id and
its secret, and is given a token (*client credentials*, RFC 6749 §4.4). Where the configuration asks
for it by name, the client makes a token without a signature, which only tests should accept.

`TokenSource.fetch` may wait for a server. `OwnToken` keeps a token for most of its life; a node
fetches in the background instead (`runtime/refreshing.py`).

Options of the JAAS string, as in Kafka: `clientId`, `clientSecret`, `scope`, and `ssl.*` for the
connection to the endpoint; `unsecuredLogin*` for tokens without a signature.

Source: RFC 6749, KIP-255, KIP-768.
"""

import base64
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote_plus

from tidelog.client.web import FetchFailed, fetch_file, fetch_web, is_file
from tidelog.config.tls_properties import resolve_tls
from tidelog.config.token_values import TokenOrigin
from tidelog.errors import UsageError
from tidelog.limits import MAX_TOKEN_CHARACTERS
from tidelog.model import NO_SECRET, Secret
from tidelog.security.jaas import Jaas
from tidelog.security.tokens import end_of
from tidelog.tls.contexts import client_context

_ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
_LIFE_PERCENT: Final = 80
"""A token is replaced when so much of its life is over (`sasl.login.refresh.window.factor`)."""
_UNSECURED_LIFE_S: Final = 3600


@dataclass(frozen=True, slots=True)
class Token:
    """A token, and when it is time for the next."""

    text: Secret
    replace_at_ms: int
    """Wall time."""


class TokenSource:
    """Fetches tokens."""

    def __init__(self, origin: TokenOrigin, jaas: Jaas) -> None:
        """Raises `UsageError` for a login at an endpoint without id and secret, and for options
        that cannot be used."""
        self.origin = origin
        self._options = {name: value.reveal() for name, value in jaas.options.items()}
        # By which the endpoint knows this client.
        self._id = origin.client_id or self._options.get("clientId", "")
        self._secret = origin.client_secret or jaas.options.get("clientSecret", NO_SECRET)
        if not origin.url:
            unsecured_claims(self._options, 0)
        elif not is_file(origin.url) and not (self._id and self._secret):
            name = "sasl.oauthbearer.client.credentials.client"
            raise UsageError(
                "the token endpoint knows no client without an id and a secret",
                f"set `{name}.id` and `{name}.secret`",
            )
        # Of the connection to the endpoint: the machine's authorities, if no option names others.
        tls = {name: text for name, text in self._options.items() if name.startswith("ssl.")}
        is_https = origin.url.lower().startswith("https:")
        self._context = client_context(resolve_tls(tls)) if is_https else None

    def fetch(self) -> Token:
        """A token that is newest now. Raises `FetchFailed`."""
        lasts_ms = None
        if not self.origin.url:
            text = _unsecured(unsecured_claims(self._options, time.time()))
        elif is_file(self.origin.url):
            content = fetch_file(_ENDPOINT, self.origin.url, is_secret=True)
            text = content.decode("utf-8", "replace").strip()
        else:
            text, lasts_ms = self._ask()
        if not text.isascii() or not text or len(text) > MAX_TOKEN_CHARACTERS or " " in text:
            raise FetchFailed("what was found is not a token")
        now_ms, ends_at_ms = time.time_ns() // 1_000_000, end_of(text)
        if ends_at_ms is not None:
            lasts_ms = ends_at_ms - now_ms
        if lasts_ms is not None and lasts_ms <= 0:
            raise FetchFailed("the token has expired already")
        # A token that says nothing about its end is fetched for each login.
        return Token(Secret(text), now_ms + (lasts_ms or 0) * _LIFE_PERCENT // 100)

    def _ask(self) -> tuple[str, int | None]:
        """A token of the endpoint, and how long it lasts if the endpoint says so."""
        name, secret = self._id, self._secret.reveal()
        if self.origin.encodes_header:
            name, secret = quote_plus(name), quote_plus(secret)
        form = {"grant_type": "client_credentials"}
        if scope := self.origin.scope or self._options.get("scope", ""):
            form["scope"] = scope
        shown = base64.b64encode(f"{name}:{secret}".encode()).decode()
        headers = {"Authorization": f"Basic {shown}"}
        try:
            answer = json.loads(fetch_web(self.origin.url, self._context, form, headers))
            text = answer["access_token"]
            seconds = answer.get("expires_in")
        except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
            raise FetchFailed("the answer of the endpoint has no `access_token`") from None
        if not isinstance(text, str):
            raise FetchFailed("the answer of the endpoint has no `access_token`")
        lasts_ms = seconds * 1000 if isinstance(seconds, int) and 0 < seconds < 1 << 40 else None
        return text, lasts_ms


class OwnToken:
    """The token of a client, for as long as it is good."""

    def __init__(self, source: TokenSource) -> None:
        self._source = source
        # The newest one.
        self._token: Token | None = None

    def get(self) -> Secret:
        """A token. Raises `FetchFailed`."""
        if self._token is None or time.time_ns() // 1_000_000 >= self._token.replace_at_ms:
            self._token = self._source.fetch()
        return self._token.text


def unsecured_claims(options: Mapping[str, str], now_s: float) -> dict[str, Any]:
    """The claims that a JAAS string describes. Raises `UsageError`."""
    claims: dict[str, Any] = {}
    try:
        for name, text in options.items():
            kind, _, claim = name.partition("Claim_")
            if kind == "unsecuredLoginString":
                claims[claim] = text
            elif kind == "unsecuredLoginNumber":
                claims[claim] = float(text)
            elif kind == "unsecuredLoginList":
                claims[claim] = text[1:].split(text[0]) if text else []
        lasts_s = float(options.get("unsecuredLoginLifetimeSeconds", _UNSECURED_LIFE_S))
    except ValueError:
        problem = "a number of an unsecured login by OAUTHBEARER cannot be read"
        hint = "correct `unsecuredLoginLifetimeSeconds` or `unsecuredLoginNumberClaim_…`"
        raise UsageError(problem, hint) from None
    name = options.get("unsecuredLoginPrincipalClaimName", "sub")
    if name not in claims:
        problem = f"the JAAS string of an unsecured login by OAUTHBEARER has no claim `{name}`"
        raise UsageError(problem, f'add `unsecuredLoginStringClaim_{name}="NAME"` to it')
    return {"iat": now_s, "exp": now_s + lasts_s, **claims}


def _unsecured(claims: Mapping[str, Any]) -> str:
    parts = (json.dumps(each).encode() for each in ({"alg": "none"}, claims))
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."
