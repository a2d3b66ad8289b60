"""Users that `tidelog format --add-scram` makes, in the words of Kafka's storage tool (KIP-900).

    SCRAM-SHA-512=[name=alice,password="a secret"]
    SCRAM-SHA-256=[name=bob,iterations=8192,salt="MWx2NH…",saltedpassword="mT0yyU…"]

Values may stand in double quotes and have no commas. A salt is drawn if none is given.

Unlike Kafka's, the tool prints no keys. Source: Kafka's `ScramParser`.
"""

import base64
import binascii
import re
import secrets
from collections.abc import Sequence
from typing import Final

from tidelog.errors import UsageError
from tidelog.limits import MAX_SCRAM_ITERATIONS, MIN_SCRAM_ITERATIONS
from tidelog.metadata.records import UserScramCredentialRecord
from tidelog.metadata.scram_keys import SCRAM_NUMBERS, salt_of, salt_password, scram_record
from tidelog.model import Mechanism

_SALT_BYTES: Final = 32
_OPTION: Final = "`--add-scram`"
_HINT: Final = "write it like `SCRAM-SHA-512=[name=NAME,password=PASSWORD]`"
_ITEM: Final = re.compile(r'\s*(?P<key>[a-z]+)\s*=\s*(?:"(?P<quoted>[^"]*)"|(?P<plain>[^",]*))\s*')
_KEYS: Final = ("name", "password", "saltedpassword", "salt", "iterations")


def parse_first_users(texts: Sequence[str]) -> tuple[UserScramCredentialRecord, ...]:
    """The credentials of all users. Raises `UsageError`, whose text has no password."""
    users = [_parse(text) for text in texts]
    named = [(user.name, user.mechanism) for user in users]
    for name, _ in (each for each in named if named.count(each) > 1):
        raise UsageError(f"{_OPTION} names `{name}` twice for a mechanism", "name each user once")
    return tuple(users)


def _parse(text: str) -> UserScramCredentialRecord:
    name, separator, rest = text.strip().partition("=")
    mechanism = next((each for each in SCRAM_NUMBERS if each == name), None)
    if mechanism is None or not (separator and rest.startswith("[") and rest.endswith("]")):
        raise UsageError(f"{_OPTION} does not begin with a mechanism of SCRAM", _HINT)
    values: dict[str, str] = {}
    for item in rest[1:-1].split(","):
        match = _ITEM.fullmatch(item)
        if match is None or match["key"] not in _KEYS or match["key"] in values:
            raise UsageError(f"{_OPTION} takes {', '.join(_KEYS)}, each once", _HINT)
        values[match["key"]] = match["plain"] if match["quoted"] is None else match["quoted"]
    if not values.get("name"):
        raise UsageError(f"{_OPTION} has no `name`", _HINT)
    return _record(mechanism, values)


def _record(mechanism: Mechanism, values: dict[str, str]) -> UserScramCredentialRecord:
    if bool(values.get("password")) == bool(values.get("saltedpassword")):
        raise UsageError(f"{_OPTION} needs either `password` or `saltedpassword`", _HINT)
    if values.get("saltedpassword") and not values.get("salt"):
        raise UsageError(f"{_OPTION} has a `saltedpassword` without its `salt`", _HINT)
    text = values.get("iterations", str(MIN_SCRAM_ITERATIONS))
    bounds = range(MIN_SCRAM_ITERATIONS, MAX_SCRAM_ITERATIONS + 1)
    if not (text.isascii() and text.isdigit() and int(text) in bounds):
        problem = f"{_OPTION} asks for `{text[:20]}` iterations"
        raise UsageError(problem, f"use {MIN_SCRAM_ITERATIONS} to {MAX_SCRAM_ITERATIONS}")
    iterations = int(text)
    salt = (
        _decoded(values, "salt")
        if values.get("salt")
        else salt_of(secrets.token_bytes(_SALT_BYTES))
    )
    if values.get("password"):
        salted = salt_password(mechanism, values["password"], salt, iterations)
    else:
        salted = _decoded(values, "saltedpassword")
    return scram_record(values["name"], mechanism, salted, salt, iterations)


def _decoded(values: dict[str, str], key: str) -> bytes:
    try:
        return base64.b64decode(values[key], validate=True)
    except binascii.Error:
        raise UsageError(f"{_OPTION}: `{key}` is not base64", _HINT) from None
