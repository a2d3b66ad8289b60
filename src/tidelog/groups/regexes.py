"""Names by regular expression: topics of subscriptions, ids in a list of transactions.

Expressions are Google's RE2, as Kafka's are (RE2/J): no back-references and no look-around, and in
exchange the time to match grows with the length of a name and not beyond. A node runs them in its
only thread; with Python's `re` one client's expression could stop it.

An expression must match the whole name. Source: KIP-848.
"""

from collections.abc import Iterable

import re2

from tidelog.errors import ErrorCode, ProtocolError
from tidelog.limits import MAX_REGEX_BYTES

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = MAX_REGEX_BYTES


def matching(
    pattern: str, names: Iterable[str], *, what: str = "SubscribedTopicRegex"
) -> tuple[str, ...]:
    """The names that match, sorted. Raises `ProtocolError` for what is not an expression."""
    try:
        compiled = re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        text = f"{what} `{pattern}` is not a valid regular expression: {error}."
        raise ProtocolError(ErrorCode.INVALID_REGULAR_EXPRESSION, text) from None
    return tuple(sorted(name for name in names if compiled.fullmatch(name) is not None))
