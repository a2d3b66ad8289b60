"""The page of error messages with their hints, from the calls that make them.

Messages are f-strings in the source. The page shows them with the expressions in braces as names,
so that a reader who searches for the fixed part of a message finds its hint.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tools.reference.markdown import code, page, section

_SOURCES: Final = Path(__file__).parents[2] / "src"
_ERRORS: Final = ("UsageError", "WorkFailed", "StartFailed")
_INTRODUCTION = """
Every error of the command line and of a start is one message and one hint. The exit code is 2 where
nothing was done, and 1 where the message is followed by `WorkFailed`. A word in braces is a value.
Codes of the Kafka protocol are in Apache Kafka's documentation; Tidelog uses them unchanged.
"""


class Message(NamedTuple):
    """One message and its hint, as they stand in the source."""

    error: str
    text: str
    hint: str


def errors_page() -> str:
    """`docs/reference/errors.md`."""
    by_package: dict[str, list[Message]] = {}
    for path in sorted(_SOURCES.rglob("*.py")):
        parts = path.relative_to(_SOURCES).parts
        package = parts[1].removesuffix(".py") if parts[0] == "tidelog" else parts[0]
        by_package.setdefault(package, []).extend(_messages(path))
    sections = []
    for package, found in sorted(by_package.items()):
        if lines := sorted({_line(message) for message in found}):
            sections.append(section(code(package), "\n".join(lines)))
    return page("Error messages", _INTRODUCTION, sections)


def _line(message: Message) -> str:
    ending = "" if message.error == "UsageError" else f" ({message.error})"
    return f"- {message.text}{ending}\n    - hint: {message.hint}"


def _messages(path: Path) -> Iterator[Message]:
    text = path.read_text()
    if not any(name in text for name in _ERRORS):
        return
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        if node.func.id in _ERRORS and len(given) == 2:
            shown, hint = _shown(given[0]), _shown(given[1])
            # A message that is a variable was made elsewhere.
            if not shown.startswith("{"):
                yield Message(node.func.id, shown, hint)


def _shown(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_shown(part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return _name(node.value)
    if isinstance(node, ast.BinOp):
        return _shown(node.left) + _shown(node.right)
    if isinstance(node, ast.IfExp):
        return f"{_shown(node.body)} / {_shown(node.orelse)}"
    return _name(node)


def _name(node: ast.expr) -> str:
    """The last name of an expression: `self._path.name` is `{name}`."""
    if isinstance(node, ast.IfExp):
        return _shown(node)
    if isinstance(node, ast.Attribute):
        return "{" + node.attr.strip("_").lower() + "}"
    if isinstance(node, ast.Name):
        return "{" + node.id.strip("_").lower() + "}"
    if isinstance(node, ast.Subscript):
        return _name(node.value)
    if isinstance(node, ast.Call):
        inner = [
            each for each in node.args if isinstance(each, ast.Name | ast.Attribute | ast.Call)
        ]
        return _name(inner[0] if inner else node.func)
    return "{…}"
