"""A JAAS string, in which Kafka's configuration names a login module and its options.

    org.apache.kafka.common.security.scram.ScramLoginModule required username="a" password="b";

One module: its class, a control flag, options, a semicolon. A value is a word, or stands in single
or double quotes with Java's escapes. `//` and `/* */` begin comments. A word begins with no digit,
so a password of digits needs quotes. The flag is read and means nothing, as in Kafka.

The whole string is a secret: a complaint says what is wrong and repeats nothing but the class.

Left out: JAAS files, more than one module, modules that are not Kafka's.

Source: Kafka's `JaasConfig`, `java.io.StreamTokenizer`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.errors import UsageError
from tidelog.limits import MAX_JAAS_CHARACTERS
from tidelog.model import Secret

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
MODULES: Final = (PLAIN_MODULE, SCRAM_MODULE, OAUTHBEARER_MODULE)
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")

_TOKEN: Final = re.compile(
    r"""
    (?P<blank> \s+ | //[^\r\n]* | /\*.*?\*/ )
    | (?P<word> [A-Za-z_$\-\u00a0-\U0010ffff] [A-Za-z0-9_$.\-\u00a0-\U0010ffff]* )
    | " (?P<double> (?: [^"\\\r\n] | \\. )* ) "
    | ' (?P<single> (?: [^'\\\r\n] | \\. )* ) '
    | (?P<sign> [=;] )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_HINT: Final = f'write it like `{SCRAM_MODULE} required username="NAME" password="PASSWORD";`'


@dataclass(frozen=True, slots=True)
class Jaas:
    """A login module with its options."""

    module: str
    options: Mapping[str, Secret]

    def option(self, name: str) -> str:
        """The text of an option; empty if it is not there."""
        found = self.options.get(name)
        return "" if found is None else found.reveal()


def parse_jaas(text: Secret, setting: str) -> Jaas:
    """Reads the value of a setting, whose name complaints have. Raises `UsageError`."""
    tokens = _tokens(text.reveal(), setting)
    module = _word(next(tokens, None), "the class of a login module", setting)
    if module not in MODULES:
        hint = f"use one of {', '.join(MODULES)}"
        raise UsageError(f"`{setting}` names the login module `{module[:200]}`", hint)
    flag = _word(next(tokens, None), "a control flag", setting)
    if flag.lower() not in _FLAGS:
        raise _bad(setting, f"has none of {', '.join(_FLAGS)} behind the class")
    options: dict[str, Secret] = {}
    for kind, token in tokens:
        if (kind, token) == ("sign", ";"):
            break
        name = _word((kind, token), "the name of an option", setting)
        if next(tokens, None) != ("sign", "="):
            raise _bad(setting, "has an option without `=`")
        options[name] = Secret(_word(next(tokens, None), "the value of an option", setting))
    else:
        raise _bad(setting, "does not end in `;`")
    if next(tokens, None) is not None:
        raise _bad(setting, "has more than one login module")
    return Jaas(module, options)


def _tokens(text: str, setting: str) -> Iterator[tuple[str, str]]:
    """Words and signs, each with its kind."""
    if len(text) > MAX_JAAS_CHARACTERS:
        raise _bad(setting, f"has more than {MAX_JAAS_CHARACTERS} characters")
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _bad(setting, f"cannot be read from character {position + 1} on")
        position = match.end()
        kind = match.lastgroup
        assert kind is not None, "every alternative has a name"
        token = match[kind]
        if kind in ("double", "single"):
            yield "word", _ESCAPE.sub(_unescape, token)
        elif kind != "blank":
            yield kind, token


def _unescape(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped.isdigit() and escaped.isascii() and escaped < "8":
        return chr(int(escaped, 8))
    return _ESCAPED.get(escaped, escaped)


def _word(token: tuple[str, str] | None, what: str, setting: str) -> str:
    if token is None or token[0] != "word":
        raise _bad(setting, f"lacks {what}")
    return token[1]


def _bad(setting: str, problem: str) -> UsageError:
    return UsageError(f"`{setting}` {problem}", _HINT)
