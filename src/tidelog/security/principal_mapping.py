"""`ssl.principal.mapping.rules`: from the name in a client's certificate to a principal's name.

Rules are separated by commas, and the first counts whose pattern matches the *whole* name:

    RULE:^CN=([^,]+),.*$/$1/L,DEFAULT

`L` and `U` make the result lower or upper case; DEFAULT takes any name as it is. A name that no
rule matches has no principal, and its connection is closed. In a replacement `$1` is the first
group of the pattern, and a backslash takes the next character literally.

Source: KIP-371.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from tidelog.errors import UsageError
from tidelog.model import ANONYMOUS, Principal
from tidelog.security.distinguished_names import subject_of

_RULE: Final = re.compile(
    r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)"
)
_REPLACED: Final = re.compile(r"\\(.)|\$(\d+)", re.DOTALL)


class _Rule(NamedTuple):
    """One rule."""

    pattern: re.Pattern[str]
    replacement: str
    case: str
    """`L`, `U`, or nothing."""


class PrincipalRules:
    """The rules of one listener."""

    def __init__(self, text: str = "DEFAULT") -> None:
        """Raises `UsageError` for what is not a list of rules."""
        # In their order; an empty list takes every name as it is.
        self._rules = list(_parse(text))

    def name_of(self, subject: str) -> str | None:
        """What the rules make of a certificate's subject; `None` if no rule matches."""
        for rule in self._rules:
            if rule is None:
                return subject
            if rule.pattern.fullmatch(subject):
                name = rule.pattern.sub(_replacement(rule), subject)
                return {"L": name.lower(), "U": name.upper()}.get(rule.case, name)
        return None

    def principal_of(self, certificate: bytes | None) -> Principal | None:
        """Who shows this certificate, in DER; `ANONYMOUS` without one, `None` for one that no rule
        matches or that cannot be read."""
        if certificate is None:
            return ANONYMOUS
        try:
            name = self.name_of(subject_of(certificate))
        except ValueError:
            return None
        return None if name is None else Principal("User", name)


def _parse(text: str) -> list[_Rule | None]:
    """The rules; `None` stands for DEFAULT."""
    rules: list[_Rule | None] = []
    end = 0
    while end < len(text):
        found = _RULE.match(text, end)
        if found is None:
            raise _bad(text)
        end = found.end()
        default, pattern, replacement, case = found.groups()
        try:
            rules.append(None if default else _Rule(re.compile(pattern), replacement, case))
        except re.error:
            raise _bad(text) from None
    return rules or [None]


def _bad(text: str) -> UsageError:
    return UsageError(
        f"`ssl.principal.mapping.rules` is `{text}`, which is not a list of rules",
        "write rules like `RULE:^CN=([^,]+),.*$/$1/L,DEFAULT`",
    )


def _replacement(rule: _Rule) -> Callable[["re.Match[str]"], str]:
    groups = rule.pattern.groups

    def expand(match: "re.Match[str]") -> str:
        def one(part: "re.Match[str]") -> str:
            if part[1] is not None:
                return part[1]
            digits = part[2]
            # As many digits as make a group that there is; a number beyond stays as it stands.
            for size in range(len(digits), 0, -1):
                if int(digits[:size]) <= groups:
                    return (match[int(digits[:size])] or "") + digits[size:]
            return f"${digits}"

        return _REPLACED.sub(one, rule.replacement)

    return expand
