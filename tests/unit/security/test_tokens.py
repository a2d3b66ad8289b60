"""Tokens of OAUTHBEARER: which ones let a client in, and the keys of their issuers."""

import base64
import json
import time
from collections.abc import Callable

import jwt
import pytest
from cryptography.hazmat.primitives import serialization

from tests.issuer import AUDIENCE, NAME, Issuer
from tidelog.config.token_values import TokenRules
from tidelog.limits import MAX_ISSUER_KEYS, MIN_KEYS_REFRESH_MS
from tidelog.model import Secret
from tidelog.security.tokens import (
    Granted,
    Keys,
    SignedTokens,
    TokenRefused,
    UnsecuredTokens,
    end_of,
    read_keys,
)

URL = "https://issuer.example/keys"
RULES = TokenRules(keys_url=URL, issuer=NAME, audience=("other", AUDIENCE))


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Bench:
    """A judge with the keys of an issuer."""

    def __init__(self, rules: TokenRules = RULES) -> None:
        self.issuer = Issuer()
        self.refreshes: list[str] = []
        self.keys = Keys(self.refreshes.append)
        self.keys.on_fetched(URL, self.issuer.document())
        self.judge = SignedTokens(rules, self.keys)

    def refusal(self, token: str, wall_ms: int | None = None) -> str:
        with pytest.raises(TokenRefused) as refused:
            self.judge.judge(token, now_ms() if wall_ms is None else wall_ms)
        assert refused.value.status == '{"status":"invalid_token"}'
        return refused.value.reason


def crafted(header: object, claims: object, signature: bytes = b"") -> str:
    """A token of these parts, however wrong."""
    parts = [json.dumps(each).encode() for each in (header, claims)] + [signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


@pytest.mark.parametrize("key", ["first", "second"])
def test_a_token_of_the_issuer_grants_its_name_until_its_end(key: str):
    bench = Bench()
    ends_at = now_ms() // 1000 + 60
    token = bench.issuer.token("alice", key, exp=ends_at)
    assert bench.judge.judge(token, now_ms()) == Granted("alice", ends_at * 1000)
    assert end_of(token) == ends_at * 1000


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"exp": 1000}, "expired"),
        ({"exp": None}, "`exp`"),
        ({"exp": "soon"}, "`exp`"),
        ({"exp": True}, "`exp`"),
        ({"exp": 10**400}, "impossible"),
        ({"exp": 1e300}, "impossible"),
        ({"exp": -1}, "impossible"),
        ({"iat": None}, "`iat`"),
        ({"nbf": time.time() + 3600}, "not valid yet"),
        ({"iss": "https://other.example"}, "another issuer"),
        ({"iss": None}, "another issuer"),
        ({"aud": "payments"}, "another audience"),
        ({"aud": ["payments", "mail"]}, "another audience"),
        ({"aud": None}, "another audience"),
        ({"aud": {"tidelog": 1}}, "audience"),
        ({"aud": [["tidelog"]]}, "audience"),
        ({"sub": None}, "name"),
        ({"sub": "  "}, "name"),
        ({"sub": 7}, "name"),
        ({"scope": ["read", "read"]}, "twice"),
        ({"scope": ["read", " "]}, "no words"),
        ({"scope": 7}, "no words"),
    ],
)
def test_a_token_with_a_wrong_claim_is_refused(changes: dict[str, object], reason: str):
    bench = Bench()
    assert reason in bench.refusal(bench.issuer.token("alice", **changes))


def test_clocks_may_differ_a_little():
    bench = Bench()
    ended = bench.issuer.token("alice", exp=now_ms() / 1000 - 20)
    assert bench.judge.judge(ended, now_ms()).name == "alice"
    assert "expired" in bench.refusal(ended, now_ms() + 20_000)
    early = bench.issuer.token("alice", nbf=now_ms() / 1000 + 20)
    assert bench.judge.judge(early, now_ms()).name == "alice"


def test_without_an_expected_audience_a_token_must_have_none():
    bench = Bench(TokenRules(keys_url=URL))
    assert bench.judge.judge(bench.issuer.token("alice", aud=None), now_ms()).name == "alice"
    assert "audience" in bench.refusal(bench.issuer.token("alice"))


def test_other_claims_may_have_the_name_and_the_scopes():
    bench = Bench(TokenRules(URL, audience=(AUDIENCE,), principal_claim="cid", scope_claim="scp"))
    token = bench.issuer.token("x", cid="bob", scp=["read"], scope=7)
    assert bench.judge.judge(token, now_ms()).name == "bob"


# Forgeries -----------------------------------------------------------------------------------


def public_pem(issuer: Issuer) -> bytes:
    return (
        issuer.keys["first"]
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )


CLAIMS = {"sub": "admin", "iss": NAME, "aud": AUDIENCE, "iat": 1, "exp": 4_000_000_000}
FORGERIES: dict[str, Callable[[Issuer], str]] = {
    "no signature": lambda _: crafted({"alg": "none", "kid": "first"}, CLAIMS),
    "no signature, other letters": lambda _: crafted({"alg": "nOnE", "kid": "first"}, CLAIMS),
    "no algorithm": lambda _: crafted({"kid": "first"}, CLAIMS),
    "a list for an algorithm": lambda _: crafted({"alg": ["RS256"], "kid": "first"}, CLAIMS),
    "the public key as a shared one": lambda issuer: _hmac(public_pem(issuer)),
    "an empty signature": lambda _: crafted({"alg": "RS256", "kid": "first"}, CLAIMS),
    "an empty signature of a curve": lambda _: crafted({"alg": "ES256", "kid": "second"}, CLAIMS),
    "zeros of a curve": lambda _: crafted({"alg": "ES256", "kid": "second"}, CLAIMS, bytes(64)),
    "the algorithm of the other key": lambda _: crafted({"alg": "ES256", "kid": "first"}, CLAIMS),
    "a key of its own in the header": lambda issuer: jwt.encode(
        CLAIMS, Issuer.keys["second"], "ES256", {"kid": "first", "jwk": {"kty": "EC"}}
    ),
    "an unknown key": lambda issuer: jwt.encode(
        CLAIMS, Issuer.keys["first"], "RS256", {"kid": "third"}
    ),
    "a number for a key": lambda _: crafted({"alg": "RS256", "kid": 1}, CLAIMS),
    "claims of another token": lambda issuer: _swapped(issuer),
    "a critical extension": lambda issuer: jwt.encode(
        CLAIMS, Issuer.keys["first"], "RS256", {"kid": "first", "crit": ["exp"], "exp": 1}
    ),
    "deep": lambda _: "e30." + base64.urlsafe_b64encode(b"[" * 20_000).decode() + ".",
    "a deep header": lambda _: base64.urlsafe_b64encode(b'{"a":' * 20_000).decode() + ".e30.",
    "no token": lambda _: "x",
    "nothing": lambda _: "..",
    "a list": lambda _: crafted([], CLAIMS),
    "five parts": lambda _: "a.b.c.d.e",
}


def _hmac(key: bytes) -> str:
    import hashlib
    import hmac

    unsigned = crafted({"alg": "HS256", "kid": "first"}, CLAIMS).rpartition(".")[0]
    signature = hmac.digest(key, unsigned.encode(), hashlib.sha256)
    return f"{unsigned}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def _swapped(issuer: Issuer) -> str:
    header, _, signature = issuer.token("alice").split(".")
    return f"{header}.{crafted({}, CLAIMS).split('.')[1]}.{signature}"


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_token_is_refused(forgery: str):
    bench = Bench()
    bench.refusal(FORGERIES[forgery](bench.issuer))


# Keys ----------------------------------------------------------------------------------------


def test_a_token_without_the_name_of_its_key_needs_a_single_one():
    bench = Bench()
    nameless = jwt.encode(CLAIMS, Issuer.keys["first"], "RS256")
    assert bench.judge.judge(nameless, now_ms()).name == "admin"
    rows = json.loads(bench.issuer.document())["keys"]
    twice = json.dumps({"keys": [*rows, {**rows[0], "kid": "third"}]}).encode()
    bench.keys.on_fetched(URL, twice)
    assert "names no key" in bench.refusal(nameless)


def test_an_unknown_key_asks_for_newer_ones_now_and_then():
    bench = Bench()
    bench.issuer.published = ["first"]
    bench.keys.on_fetched(URL, bench.issuer.document())
    token, begin = bench.issuer.token("alice", "second"), now_ms()
    bench.refusal(token, begin)
    bench.refusal(token, begin + MIN_KEYS_REFRESH_MS - 1)
    assert bench.refreshes == [URL]
    bench.refusal(token, begin + MIN_KEYS_REFRESH_MS)
    assert bench.refreshes == [URL, URL]
    bench.issuer.published = ["second"]
    bench.keys.on_fetched(URL, bench.issuer.document())
    assert bench.judge.judge(token, now_ms()).name == "alice"
    bench.refusal(bench.issuer.token("alice", "first"))


def test_before_there_are_keys_no_token_is_good():
    judge = SignedTokens(RULES, Keys(lambda url: None))
    with pytest.raises(TokenRefused):
        judge.judge(Issuer().token("alice"), now_ms())


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"keys": {}}',
        b'{"keys": []}',
        b'{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "a"}]}',
        b'{"keys": [{"kty": "RSA", "kid": "a"}, 7]}',
        b'{"keys": ' + b"[" * 50_000,
        json.dumps({"keys": [{}] * (MAX_ISSUER_KEYS + 1)}).encode(),
    ],
)
def test_what_has_no_key_for_signatures_is_not_a_key_set(document: bytes):
    with pytest.raises(ValueError, match=r"\w"):
        read_keys(document)


def test_keys_for_encryption_and_unknown_ones_are_left_out():
    rows = json.loads(Issuer().document())["keys"]
    others = [{**rows[0], "use": "enc", "kid": "enc"}, {"kty": "new", "kid": "n"}]
    assert set(read_keys(json.dumps({"keys": rows + others}).encode())) == {"first", "second"}


# Without a signature -------------------------------------------------------------------------


def unsecured(**claims: object) -> str:
    return crafted({"alg": "none"}, {"sub": "alice", "exp": time.time() + 60, **claims})


def test_a_token_without_a_signature_is_taken_where_that_is_asked_for():
    judge = UnsecuredTokens({"unsecuredValidatorRequiredScope": Secret("read")})
    assert judge.judge(unsecured(scope="write read"), now_ms()).name == "alice"
    with pytest.raises(TokenRefused) as refused:
        judge.judge(unsecured(), now_ms())
    assert refused.value.status == '{"status":"insufficient_scope","scope":"read"}'
    for bad in (unsecured(exp=1), unsecured(iat=time.time() + 99), Issuer().token("alice")):
        with pytest.raises(TokenRefused):
            judge.judge(bad, now_ms())


@pytest.mark.parametrize("name", ["x" * 40_000, "\ud800"])
def test_a_name_that_no_record_can_hold_is_refused(name: str):
    """An issuer may have signed it; it would stand in audits, tokens and envelopes."""
    bench = Bench()
    assert bench.refusal(bench.issuer.token(name)).startswith("the name of its client is a text")
