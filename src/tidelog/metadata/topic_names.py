"""Which topic names are legal, to create a topic and to ask about one.

A name becomes part of a directory's name: hence the characters and the length. Collisions of names
that metrics cannot distinguish (`a.b` and `a_b`) are the controller's business, because they depend
on what exists.

Source: Kafka's `Topic.validate`.
"""

import re
from typing import Final

from tidelog.errors import ErrorCode
from tidelog.limits import MAX_TOPIC_NAME_LENGTH

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+\Z")


def name_fault(name: str) -> str | None:
    """What is wrong with a topic name; `None` when it is legal."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return "'.' or '..' is not allowed"
    if len(name) > MAX_TOPIC_NAME_LENGTH:
        return f"the length of '{name}' is longer than the maximum, {MAX_TOPIC_NAME_LENGTH}"
    if not _LEGAL.match(name):
        return f"'{name}' contains other characters than ASCII alphanumerics, '.', '_', '-'"
    return None


def code_of_unknown(name: str) -> ErrorCode:
    """Why there is no topic of this name: clients stop to ask for one that no topic can have."""
    if name_fault(name) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.INVALID_TOPIC_EXCEPTION
