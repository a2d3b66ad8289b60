"""The keys of a SCRAM credential: what the controller writes, and servers and clients compute
(RFC 5802 §3). The password cannot be found from them but by guessing.
"""

import hashlib
import hmac
from typing import Final

from tidelog.metadata.records import UserScramCredentialRecord
from tidelog.model import Mechanism

SCRAM_NUMBERS: Final = {Mechanism.SCRAM_SHA_256: 1, Mechanism.SCRAM_SHA_512: 2}
"""Mechanisms in requests and records (KIP-554)."""
SCRAM_MECHANISMS: Final = {number: mechanism for mechanism, number in SCRAM_NUMBERS.items()}
DIGESTS: Final = {Mechanism.SCRAM_SHA_256: "sha256", Mechanism.SCRAM_SHA_512: "sha512"}


_SALT_BITS: Final = 130
_DIGITS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"


def salt_of(drawn: bytes) -> bytes:
    """A salt from at least 17 random bytes. It looks like those that Kafka's tools make, a number
    in base 36, so that nothing in it says who has made it."""
    number, salt = int.from_bytes(drawn) % (1 << _SALT_BITS), bytearray()
    while number or not salt:
        number, digit = divmod(number, len(_DIGITS))
        salt.append(_DIGITS[digit])
    return bytes(reversed(salt))


def salt_password(mechanism: Mechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """PBKDF2: takes milliseconds, so that guessing passwords takes long."""
    return hashlib.pbkdf2_hmac(DIGESTS[mechanism], password.encode(), salt, iterations)


def client_key(mechanism: Mechanism, salted_password: bytes) -> bytes:
    """With which a client signs; never leaves it."""
    return hmac.digest(salted_password, b"Client Key", DIGESTS[mechanism])


def stored_key(mechanism: Mechanism, key: bytes) -> bytes:
    """What a server keeps of a client's key."""
    return hashlib.new(DIGESTS[mechanism], key).digest()


def server_key(mechanism: Mechanism, salted_password: bytes) -> bytes:
    """With which a server signs."""
    return hmac.digest(salted_password, b"Server Key", DIGESTS[mechanism])


def scram_record(
    name: str, mechanism: Mechanism, salted_password: bytes, salt: bytes, iterations: int
) -> UserScramCredentialRecord:
    """A user's credential."""
    return UserScramCredentialRecord(
        name=name,
        mechanism=SCRAM_NUMBERS[mechanism],
        salt=salt,
        stored_key=stored_key(mechanism, client_key(mechanism, salted_password)),
        server_key=server_key(mechanism, salted_password),
        iterations=iterations,
    )
