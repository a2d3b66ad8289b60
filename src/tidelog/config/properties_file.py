r"""The syntax of a `.properties` file, as `java.util.Properties` reads it.

One `name=value` a line; `:` or blanks separate too; `#` and `!` begin a comment line; a backslash
at the end of a line continues it, elsewhere it escapes (`\t`, `\n`, `\=`, `\u00e9`). A name that
appears twice takes its last value, as in Java.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from tidelog.errors import UsageError

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = re.compile(r"\\(?:u(.{0,4})|(.?))", re.DOTALL)
_BLANKS = " \t\f"


def parse_properties(text: str) -> dict[str, str]:
    """All properties of a file's text, in the order of their first appearance.

    Raises `UsageError` for a malformed `\\u` escape, the only possible error of the syntax.
    """
    settings: dict[str, str] = {}
    # Not splitlines(): it would also cut at form feeds and Unicode separators.
    natural_lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for line in _logical_lines(natural_lines):
        end = _name_end(line)
        name, rest = line[:end], line[end:].lstrip(_BLANKS)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_BLANKS)
        settings[_unescape(name)] = _unescape(rest)
    return settings


def format_properties(settings: Mapping[str, str], comment: str = "") -> str:
    """A file's text from which `parse_properties` gives the same mapping."""
    lines = [f"# {comment}"] if comment else []
    lines += [f"{_escape(name, key=True)}={_escape(settings[name])}" for name in settings]
    return "\n".join(lines) + "\n"


def parse_assignment(text: str) -> tuple[str, str]:
    """Name and value of a command line's `NAME=VALUE`; raises `UsageError` without a `=`."""
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise UsageError(f"`{text}` is not NAME=VALUE", "write it like `min.insync.replicas=2`")
    return name.strip(), value.strip()


def _logical_lines(lines: Iterable[str]) -> Iterator[str]:
    pending = ""
    for raw in lines:
        line = raw.lstrip(_BLANKS)
        if not pending and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        yield pending + line
        pending = ""
    if pending:
        yield pending


def _name_end(line: str) -> int:
    index = 0
    while index < len(line) and line[index] not in "=: \t\f":
        index += 2 if line[index] == "\\" else 1
    return min(index, len(line))


def _unescape(text: str) -> str:
    return _ESCAPED.sub(
        lambda found: (
            _ESCAPES.get(found[2], found[2]) if found[1] is None else _unicode_escape(found[1])
        ),
        text,
    )


def _unicode_escape(digits: str) -> str:
    try:
        if len(digits) != 4:
            raise ValueError
        return chr(int(digits, 16))
    except ValueError:
        raise UsageError(
            f"`\\u{digits}` in the properties file is not a character",
            "write `\\u` with four hexadecimal digits, or `\\\\u` for a backslash and a u",
        ) from None


def _escape(text: str, *, key: bool = False) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
    escaped = escaped.replace("\r", "\\r").replace("\f", "\\f")
    if key:
        for char in "=: #!":
            escaped = escaped.replace(char, f"\\{char}")
    elif escaped.startswith(" "):
        escaped = "\\" + escaped
    return escaped
