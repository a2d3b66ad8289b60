"""Users of SCRAM as an administrator's requests have them: salted passwords, never passwords.

Source: KIP-554.
"""

from tidelog.metadata.scram_keys import SCRAM_MECHANISMS, SCRAM_NUMBERS, salt_of, salt_password
from tidelog.model import Mechanism, Secret


def upsertion(
    name: str, mechanism: Mechanism, password: Secret, drawn: bytes, iterations: int
) -> dict[str, object]:
    """Gives a user a password, with a salt of at least 17 random bytes. Takes milliseconds."""
    salt = salt_of(drawn)
    return {
        **deletion(name, mechanism),
        "iterations": iterations,
        "salt": salt,
        "salted_password": salt_password(mechanism, password.reveal(), salt, iterations),
    }


def deletion(name: str, mechanism: Mechanism) -> dict[str, object]:
    """Takes a user's password away."""
    return {"name": name, "mechanism": SCRAM_NUMBERS[mechanism]}


def mechanism_name(number: int) -> str:
    """As Kafka names it; the number where this version does not know it."""
    known = SCRAM_MECHANISMS.get(number)
    return str(number) if known is None else str(known)
