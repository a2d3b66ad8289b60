"""Tokens of OAUTHBEARER: JSON objects of claims, signed by an issuer (JWT, RFC 7519).

Theory. A token has three parts in base64url, with dots between: a header that names the key and the
algorithm, the claims, and the signature (RFC 7515). The issuer publishes its keys (JWKS, RFC 7517).
A token lets its client in if one of these keys has signed it and if its claims are right: `exp` has
not passed, `nbf` has, `iss` and `aud` are those that the listener expects, and `sub` has a name.

The header comes from the client. So it only chooses among the keys of the issuer, and among the
algorithms that a key is made for; keys that both sides would have to know (`oct`) are not used, and
the algorithm `none` is not served. PyJWT checks signatures; the claims are judged here, since a
core has no clock of its own.

*Unsecured* tokens have no signature, and everybody can make one. They are taken only by a listener
whose configuration names Kafka's class for them.

Why a token is refused is for the operator's log; the client learns the status `invalid_token`.

Left out: encrypted tokens, keys that are named by their certificates.

Source: RFC 7515, RFC 7517, RFC 7519, RFC 8725; KIP-255, KIP-768.
"""

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tidelog.config.token_values import TokenRules
from tidelog.errors import UnwritableText
from tidelog.limits import MAX_ISSUER_KEYS, MIN_KEYS_REFRESH_MS
from tidelog.model import Secret
from tidelog.wire.notation import encode_text

_ALGORITHMS: Final = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
"""By the type of a key, those that it may sign by."""
INVALID_TOKEN: Final = '{"status":"invalid_token"}'
_MAX_SECONDS: Final = 253_402_300_800
"""The year 10000: later times make no sense."""


@dataclass(frozen=True, slots=True)
class Granted:
    """What a good token grants."""

    name: str
    ends_at_wall_ms: int


class TokenRefused(Exception):
    """A token that lets no client in."""

    def __init__(self, reason: str, status: str = INVALID_TOKEN) -> None:
        """`reason` is for the node's log, `status` for the client, in JSON."""
        super().__init__(reason)
        self.reason = reason
        self.status = status


class Judge(Protocol):
    """What decides about the tokens of one listener."""

    def judge(self, token: str, wall_ms: int) -> Granted:
        """What a token grants at this time. Raises `TokenRefused`."""


# Keys --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IssuerKey:
    """A public key, and the algorithms that it signs by."""

    key: Any
    algorithms: tuple[str, ...]


KeySet = Mapping[str, IssuerKey]
"""The keys of an issuer by their ids."""


def read_keys(document: bytes) -> KeySet:
    """The keys for signatures in a JWKS; those that cannot be used are left out. Raises
    `ValueError` for what is not a JWKS, and for one without any key that can be used."""
    # It brings `cryptography` along, which takes memory.
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    found = _read_object(document)
    listed = found.get("keys")
    if not isinstance(listed, list):
        raise ValueError("it has no list `keys`")
    if len(listed) > MAX_ISSUER_KEYS:
        raise ValueError(f"it has more than {MAX_ISSUER_KEYS} keys")
    keys = {}
    for number, one in enumerate(listed):
        if not isinstance(one, dict) or one.get("use", "sig") != "sig":
            continue
        algorithms = _ALGORITHMS.get(str(one.get("kty")), ())
        if "alg" in one:
            algorithms = tuple(each for each in algorithms if each == one["alg"])
        if not algorithms:
            continue
        try:
            key = PyJWK({**one, "alg": algorithms[0]} if one["kty"] == "RSA" else one)
        except (PyJWTError, ValueError, TypeError, KeyError):
            continue
        keys[str(one.get("kid", f" {number}"))] = IssuerKey(key.key, algorithms)
    if not keys:
        raise ValueError("it has no key for signatures that can be used")
    return keys


class Keys:
    """The keys of all issuers of a node. A driver fetches them; those that there are stay in force
    until it has others."""

    def __init__(self, refresh: Callable[[str], None]) -> None:
        # Asks the driver for newer keys from a URL.
        self._refresh = refresh
        # By the URL that they come from.
        self._sets: dict[str, KeySet] = {}
        # When newer keys were last asked for because of a token, by URL.
        self._asked_at: dict[str, int] = {}

    def on_fetched(self, url: str, document: bytes) -> None:
        """There are newer keys, which the driver could read."""
        self._sets[url] = read_keys(document)

    def find(self, url: str, key_id: str | None, algorithm: str, wall_ms: int) -> IssuerKey:
        """The key with this id, or the only one for the algorithm if the token names none. Raises
        `TokenRefused`."""
        keys = self._sets.get(url, {})
        if key_id is not None:
            if key_id not in keys:
                self._ask(url, wall_ms)
                raise TokenRefused("a token with a key that the issuer does not have")
            return keys[key_id]
        fitting = [key for key in keys.values() if algorithm in key.algorithms]
        if len(fitting) != 1:
            raise TokenRefused(f"a token that names no key, where {len(fitting)} are possible")
        return fitting[0]

    def _ask(self, url: str, wall_ms: int) -> None:
        """Wants newer keys, but not as often as strangers like."""
        asked_at = self._asked_at.get(url)
        if asked_at is None or abs(wall_ms - asked_at) >= MIN_KEYS_REFRESH_MS:
            self._asked_at[url] = wall_ms
            self._refresh(url)


def end_of(token: str) -> int | None:
    """When a token ends, be it signed well or not; `None` for one that does not say."""
    try:
        return _millis(_part(token, 1), "exp")
    except TokenRefused:
        return None


# Tokens ------------------------------------------------------------------------------------


class SignedTokens:
    """Tokens with a signature."""

    def __init__(self, rules: TokenRules, keys: Keys) -> None:
        self._rules = rules
        # Of all issuers.
        self._keys = keys

    def judge(self, token: str, wall_ms: int) -> Granted:
        """What a token grants. Raises `TokenRefused`."""
        header = _part(token, 0)
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or not isinstance(key_id, str | None):
            raise TokenRefused("a token whose header has no algorithm, or a key that is not a text")
        key = self._keys.find(self._rules.keys_url, key_id, algorithm, wall_ms)
        if algorithm not in key.algorithms:
            raise TokenRefused("a token with an algorithm that its key is not made for")
        claims = _verified(token, key, algorithm)
        ends_at_ms = _check_times(claims, wall_ms, self._rules.clock_skew_ms)
        self._check_origin(claims)
        _scopes(claims.get(self._rules.scope_claim))
        return Granted(_name(claims, self._rules.principal_claim), ends_at_ms)

    def _check_origin(self, claims: Mapping[str, Any]) -> None:
        rules = self._rules
        if rules.issuer and claims.get("iss") != rules.issuer:
            raise TokenRefused("a token of another issuer")
        audience = claims.get("aud", [])
        listed = [audience] if isinstance(audience, str) else audience
        if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
            raise TokenRefused("a token whose audience is not a text")
        if (rules.audience or listed) and not set(listed) & set(rules.audience):
            raise TokenRefused("a token for another audience")


class UnsecuredTokens:
    """Tokens without a signature, for tests. The options are those of the listener's JAAS string,
    by Kafka's names."""

    def __init__(self, options: Mapping[str, Secret]) -> None:
        """Raises `ValueError` for a clock skew that is not a number."""
        texts = {name: option.reveal() for name, option in options.items()}
        self._name_claim = texts.get("unsecuredValidatorPrincipalClaimName", "sub")
        self._scope_claim = texts.get("unsecuredValidatorScopeClaimName", "scope")
        self._required = set(texts.get("unsecuredValidatorRequiredScope", "").split())
        self._skew_ms = int(texts.get("unsecuredValidatorAllowableClockSkewMs", "0"))

    def judge(self, token: str, wall_ms: int) -> Granted:
        """What a token grants. Raises `TokenRefused`."""
        if _part(token, 0).get("alg") != "none" or not token.endswith("."):
            raise TokenRefused("a token with a signature, where tokens have none")
        claims = _part(token, 1)
        ends_at_ms = _check_times(claims, wall_ms, self._skew_ms, issued=False)
        if "iat" in claims and _millis(claims, "iat") > wall_ms + self._skew_ms:
            raise TokenRefused("a token that is not issued yet")
        if not self._required <= _scopes(claims.get(self._scope_claim)):
            scope = " ".join(sorted(self._required))
            status = json.dumps(
                {"status": "insufficient_scope", "scope": scope}, separators=(",", ":")
            )
            raise TokenRefused("a token that lacks a scope", status)
        return Granted(_name(claims, self._name_claim), ends_at_ms)


def _verified(token: str, key: IssuerKey, algorithm: str) -> dict[str, Any]:
    """The claims of a token whose signature is the key's. Raises `TokenRefused`."""
    from jwt import PyJWS
    from jwt.exceptions import PyJWTError

    try:
        payload = PyJWS().decode(token, key=key.key, algorithms=[algorithm])
    except (PyJWTError, ValueError, TypeError):
        raise TokenRefused("a token whose signature is not the key's") from None
    try:
        return _read_object(payload)
    except ValueError as error:
        raise TokenRefused(f"a token whose claims cannot be read: {error}") from None


def _part(token: str, number: int) -> dict[str, Any]:
    """The object in the header or the claims of any token. Raises `TokenRefused`."""
    parts = token.split(".")
    if len(parts) != 3:
        raise TokenRefused("a token that does not have three parts")
    try:
        text = base64.b64decode(
            parts[number] + "=" * (-len(parts[number]) % 4), altchars=b"-_", validate=True
        )
        return _read_object(text)
    except (binascii.Error, ValueError):
        raise TokenRefused("a token that cannot be read") from None


def _read_object(text: bytes) -> dict[str, Any]:
    """Raises `ValueError` for what is not a JSON object; deep ones are none either."""
    try:
        found = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("it is too deep") from None
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _check_times(
    claims: Mapping[str, Any], wall_ms: int, skew_ms: int, *, issued: bool = True
) -> int:
    """When the token ends. Raises `TokenRefused` for one that has ended, or not begun."""
    ends_at_ms = _millis(claims, "exp")
    if issued:
        _millis(claims, "iat")
    if wall_ms - skew_ms >= ends_at_ms:
        raise TokenRefused("a token that has expired")
    if "nbf" in claims and _millis(claims, "nbf") > wall_ms + skew_ms:
        raise TokenRefused("a token that is not valid yet")
    return ends_at_ms


def _millis(claims: Mapping[str, Any], name: str) -> int:
    seconds = claims.get(name)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TokenRefused(f"a token without a time in `{name}`")
    if not 0 <= seconds < _MAX_SECONDS:
        raise TokenRefused(f"a token with an impossible time in `{name}`")
    return int(seconds * 1000)


def _scopes(claim: Any) -> set[str]:
    """The scopes in a claim: words, or a list of them. Raises `TokenRefused`."""
    listed = [] if claim is None else claim.split() if isinstance(claim, str) else claim
    if not isinstance(listed, list) or not all(isinstance(s, str) and s.strip() for s in listed):
        raise TokenRefused("a token whose scopes are no words")
    if len(set(listed)) != len(listed):
        raise TokenRefused("a token with the same scope twice")
    return set(listed)


def _name(claims: Mapping[str, Any], claim: str) -> str:
    name = claims.get(claim)
    if not isinstance(name, str) or not name.strip():
        raise TokenRefused("a token without the name of its client")
    try:
        encode_text(name)
    except UnwritableText as error:
        raise TokenRefused(f"the name of its client is {error.message}") from None
    return name.strip()
