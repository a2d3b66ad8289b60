"""SCRAM-SHA-256 and SCRAM-SHA-512: a password is proved and not shown (RFC 5802, RFC 7677).

Theory. Both sides know a salted password H(password, salt, iterations); the server keeps two keys
made of it, of which neither is enough to log in. The client signs both nonces with its key, the
server signs them with its own, and each checks the other:

    client: n,,n=NAME,r=NONCE
    server: r=NONCE+NONCE,s=SALT,i=ITERATIONS
    client: c=biws,r=NONCE+NONCE,p=PROOF
    server: v=SIGNATURE

A name that does not exist fails where a wrong password does, at the proof: until then it has a salt
that is made of the name and a secret of the node. So a client does not learn which names exist (RFC
5802 §9). The header with the channel binding is compared with the one that was sent, and `y,` and
`p=` are refused, because no server here binds a channel: a machine in between cannot take the
client's wish away (§6).

A client that logs in with a delegation token (`delegation.py`) says so by the extension
`tokenauth=true`; its name is that of the token, its password what the token's holder was given.

Names are ASCII, with `=2C` for a comma and `=3D` for an equals sign, as in Kafka. Left out:
SASLprep of names and passwords, channel binding.

Source: RFC 5802, RFC 7677; Kafka's `ScramSaslServer`, which ends at once for unknown names.
"""

import base64
import binascii
import hashlib
import hmac
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

from tidelog.limits import (
    MAX_FAKE_CREDENTIALS,
    MAX_SALTED_KEYS,
    MAX_SCRAM_ITERATIONS,
    MAX_SCRAM_TOKEN_BYTES,
    MIN_SCRAM_ITERATIONS,
)
from tidelog.metadata.scram_keys import (
    DIGESTS,
    client_key,
    salt_of,
    salt_password,
    server_key,
    stored_key,
)
from tidelog.model import Mechanism, Secret
from tidelog.security.sasl import AuthenticationFailed

_BASE64: Final = r"[A-Za-z0-9+/]+={0,2}"
_EXTENSIONS: Final = r"(?:,[A-Za-z]+=[^,\x00]+)*"
_BY_TOKEN: Final = "tokenauth=true"
_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<header>n,(?:a=(?P<authorization>{_NAME}))?,)"
    rf"(?P<bare>(?P<reserved>m=[^,\x00]+,)?n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE})"
    rf"(?P<extensions>{_EXTENSIONS}))"
)
_SERVER_FIRST: Final = re.compile(
    rf"r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[1-9][0-9]{{0,9}}){_EXTENSIONS}"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<unproved>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_NONCE})),p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL: Final = re.compile(rf"v=(?P<signature>{_BASE64}){_EXTENSIONS}")


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a server knows of a user: not enough to log in with."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


class Account(NamedTuple):
    """Who may log in by a name, and with what."""

    user: str
    """Who is logged in then."""
    credential: ScramCredential
    ends_at_wall_ms: int | None = None
    """When the credential ends; a password has no end."""


class Accounts(Protocol):
    """Who may log in, as it is now."""

    def of_user(self, mechanism: Mechanism, name: str) -> Account | None:
        """With a password."""

    def of_token(self, mechanism: Mechanism, token_id: str) -> Account | None:
        """With a delegation token."""


@lru_cache(maxsize=MAX_FAKE_CREDENTIALS)
def fake_credential(mechanism: Mechanism, name: str, secret: bytes) -> ScramCredential:
    """What a user that does not exist has instead: the same salt each time, and keys that no
    password leads to. It is made for each name that is asked for, whether it exists or not, so that
    the time says nothing."""
    digest = DIGESTS[mechanism]
    text = f"{mechanism},{name}".encode()
    salt = salt_of(hmac.digest(secret, b"salt," + text, hashlib.sha256))
    key = hmac.digest(secret, b"key," + text, digest)
    return ScramCredential(salt, key, key, MIN_SCRAM_ITERATIONS)


class ScramServer:
    """The server's side of one login."""

    def __init__(self, mechanism: Mechanism, accounts: Accounts, nonce: str, secret: bytes) -> None:
        self._mechanism = mechanism
        # Who exists.
        self._accounts = accounts
        # The server's part of the nonce, then all of it.
        self._nonce = nonce
        # Of the node: makes salts for names that do not exist.
        self._secret = secret
        # What the first message said: its header, and what both sides will sign of it.
        self._header = ""
        self._signed = ""
        # Of the name, or a fake one; `None` before the first message.
        self._credential: ScramCredential | None = None
        # Who has that name; `None` where no user and no token has it.
        self._account: Account | None = None
        # The name, once it is proved.
        self.authenticated: str | None = None
        # When the credential ends.
        self.ends_at_wall_ms: int | None = None
        # Whether the client logs in with a token.
        self.is_delegated = False

    def respond(self, token: bytes) -> bytes:
        """The answer to the client's first or final message. Raises `AuthenticationFailed`."""
        text = _text_of(token)
        if self._credential is None:
            return self._on_first(text).encode()
        return self._on_final(text, self._credential).encode()

    def _on_first(self, text: str) -> str:
        first = _CLIENT_FIRST.fullmatch(text)
        if first is None:
            raise AuthenticationFailed("a first message that is not SCRAM's")
        name = _unescaped(first["name"])
        if first["reserved"]:
            raise AuthenticationFailed("a mandatory extension that does not exist")
        if first["authorization"] and _unescaped(first["authorization"]) != name:
            message = "Client requested an authorization id that is different from username"
            raise AuthenticationFailed(message, message)
        self.is_delegated = _BY_TOKEN in first["extensions"].split(",")
        find = self._accounts.of_token if self.is_delegated else self._accounts.of_user
        account = self._account = find(self._mechanism, name)
        fake = fake_credential(self._mechanism, name, self._secret)
        self._credential = credential = fake if account is None else account.credential
        self._header = first["header"]
        self._nonce = first["nonce"] + self._nonce
        answer = f"r={self._nonce},s={_base64(credential.salt)},i={credential.iterations}"
        self._signed = f"{first['bare']},{answer}"
        return answer

    def _on_final(self, text: str, credential: ScramCredential) -> str:
        final = _CLIENT_FINAL.fullmatch(text)
        if final is None or self.authenticated is not None:
            raise AuthenticationFailed("a final message that is not SCRAM's")
        # Up to 2.6.0, librdkafka puts its own nonce in front once more; the proof covers all of it.
        if not final["nonce"].endswith(self._nonce):
            raise AuthenticationFailed("a nonce that is not the one of this login")
        if _from_base64(final["binding"]) != self._header.encode():
            raise AuthenticationFailed("a channel binding that is not the one of the first message")
        digest = DIGESTS[self._mechanism]
        signed = f"{self._signed},{final['unproved']}".encode()
        signature = hmac.digest(credential.stored_key, signed, digest)
        proof = _from_base64(final["proof"])
        key = _xor(proof, signature) if len(proof) == len(signature) else b""
        proved = stored_key(self._mechanism, key)
        is_proved, account = hmac.compare_digest(proved, credential.stored_key), self._account
        if account is None:
            what = "a token" if self.is_delegated else "a user"
            raise AuthenticationFailed(f"{what} that does not exist")
        if not is_proved:
            raise AuthenticationFailed("a wrong password")
        self.authenticated, self.ends_at_wall_ms = account.user, account.ends_at_wall_ms
        return f"v={_base64(hmac.digest(credential.server_key, signed, digest))}"


class SaltedPasswords:
    """Salted passwords of this process's own logins. The first login to a cluster computes one, and
    those that follow find it; a change of the credential makes another."""

    def __init__(self) -> None:
        # The newest last.
        self._salted: dict[tuple[Mechanism, Secret, bytes, int], bytes] = {}

    def get(self, mechanism: Mechanism, password: Secret, salt: bytes, iterations: int) -> bytes:
        """The salted password."""
        key = (mechanism, password, salt, iterations)
        if key not in self._salted:
            while len(self._salted) >= MAX_SALTED_KEYS:
                del self._salted[next(iter(self._salted))]
            self._salted[key] = salt_password(mechanism, password.reveal(), salt, iterations)
        return self._salted[key]


class ScramClient:
    """The client's side of one login."""

    def __init__(
        self,
        mechanism: Mechanism,
        name: str,
        password: Secret,
        nonce: str,
        salted: SaltedPasswords,
        *,
        is_token: bool = False,
    ) -> None:
        """With `is_token` the name is that of a delegation token."""
        self._mechanism = mechanism
        # With what it logs in.
        self._password = password
        # The client's part of the nonce.
        self._nonce = nonce
        # Keeps what is costly to compute.
        self._salted = salted
        # The first message without its header.
        self._bare = f"n={_escaped(name)},r={nonce}"
        if is_token:
            self._bare += f",{_BY_TOKEN}"
        # How many messages were sent.
        self._sent = 0
        # What the server must say last.
        self._expected = b""
        # Whether the server has said it.
        self.is_complete = False

    def respond(self, challenge: bytes) -> bytes:
        """The next message. Raises `AuthenticationFailed`."""
        self._sent += 1
        if self._sent == 1:
            return f"n,,{self._bare}".encode()
        text = _text_of(challenge)
        if self._expected:
            self._check(text)
            return b""
        return self._final(text).encode()

    def _final(self, text: str) -> str:
        first = _SERVER_FIRST.fullmatch(text)
        if first is None:
            raise AuthenticationFailed("the server's first message is not SCRAM's")
        if not first["nonce"].startswith(self._nonce) or first["nonce"] == self._nonce:
            raise AuthenticationFailed("the server answers with a nonce that is not its own")
        iterations = int(first["iterations"])
        if not MIN_SCRAM_ITERATIONS <= iterations <= MAX_SCRAM_ITERATIONS:
            raise AuthenticationFailed(f"the server asks for {iterations} iterations")
        salt = _from_base64(first["salt"])
        salted = self._salted.get(self._mechanism, self._password, salt, iterations)
        digest = DIGESTS[self._mechanism]
        unproved = f"c={_base64(b'n,,')},r={first['nonce']}"
        signed = f"{self._bare},{text},{unproved}".encode()
        key = client_key(self._mechanism, salted)
        proof = _xor(key, hmac.digest(stored_key(self._mechanism, key), signed, digest))
        self._expected = hmac.digest(server_key(self._mechanism, salted), signed, digest)
        return f"{unproved},p={_base64(proof)}"

    def _check(self, text: str) -> None:
        final = _SERVER_FINAL.fullmatch(text)
        if final is None or not hmac.compare_digest(
            _from_base64(final["signature"]), self._expected
        ):
            raise AuthenticationFailed("the server does not know the password")
        self.is_complete = True


def _text_of(token: bytes) -> str:
    if len(token) > MAX_SCRAM_TOKEN_BYTES:
        raise AuthenticationFailed(f"a message of {len(token)} bytes")
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise AuthenticationFailed("a message that is not UTF-8") from None


def _escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise AuthenticationFailed("bytes that are not base64") from None


def _xor(one: bytes, other: bytes) -> bytes:
    width = len(one)
    return (int.from_bytes(one) ^ int.from_bytes(other)).to_bytes(width)
