"""Goal: a log line leads to code, because events and lines name the function that decided.

Method: the event classes that `docs/reference/events.md` is made from, and the syntax of the calls
that make lines. A leading underscore does not count: `on_offset` stands for `_on_offset` too.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from tools.reference.events import event_classes

from tests.tidy.source import product, texts
from tidelog.env.event import Event

DECLARATION: Final = re.compile(r"^@event\(", re.MULTILINE)
MODULE_OF_EVENTS: Final = re.compile(r"events\.py$|/events/\w+\.py$|/env/event\.py$")
LINE_METHODS: Final = ("debug", "info", "warn", "error")


def package_of(path: str) -> str:
    """`log` for `src/tidelog/log/segment.py`."""
    return path.split("/")[2]


def sources() -> dict[str, str]:
    return {path: text for path, text in texts().items() if path.startswith("src/tidelog/")}


@cache
def functions_of(package: str) -> frozenset[str]:
    """The names of a package's functions and methods, without leading underscores."""
    return frozenset(
        function.name.rpartition(".")[2].lstrip("_")
        for module in product()
        if package_of(module.path) == package
        for function in module.functions
    )


def own_text(event: type[Event], name: str) -> str | None:
    """A class attribute that is a text; `None` where each event of the class has its own."""
    value: object = getattr(event, name)
    assert value is not getattr(Event, name), f"{event.__qualname__} has no {name}"
    assert not isinstance(value, str) or value, f"{event.__qualname__} has an empty {name}"
    return value if isinstance(value, str) else None


def handlers_in(path: str) -> Iterator[ast.expr]:
    """What a module passes as handler: to the calls that make lines, and by name. A parameter
    `handler` that is passed on is checked where it gets its value."""
    text = sources()[path]
    if "handler" not in text and "trace" not in text:
        return
    for node in ast.walk(ast.parse(text, path)):
        if isinstance(node, ast.keyword) and node.arg == "handler":
            if ast.unparse(node.value) != "handler":
                yield node.value
        elif isinstance(node, ast.arguments):
            given = zip(node.kwonlyargs, node.kw_defaults, strict=True)
            yield from (default for one, default in given if default and one.arg == "handler")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            traced = ast.unparse(node.func.value).endswith("trace")
            if traced and node.func.attr in LINE_METHODS:
                yield node.args[1]


def test_events_are_declared_where_the_reference_finds_them():
    declaring = [path for path, text in sources().items() if DECLARATION.search(text)]
    assert len(declaring) > 5
    assert [path for path in declaring if not MODULE_OF_EVENTS.search(path)] == []


def test_every_event_says_in_its_docstring_what_happened():
    """A dataclass without a docstring has its signature in the place of one."""
    events = event_classes()
    assert len(events) > 100
    assert [each for each in events if str(each.__doc__).startswith(f"{each.__name__}(")] == []


def test_every_event_has_a_decision():
    for event in event_classes():
        own_text(event, "decision")


def test_handlers_of_events_are_functions_of_their_package():
    found = [
        f"{event.__qualname__}: {handler}"
        for event in event_classes()
        if (handler := own_text(event, "handler")) is not None
        and handler not in functions_of(event.__module__.split(".")[1])
    ]
    assert found == []


def test_handlers_of_lines_are_functions_of_their_package():
    """They are literals, so that a search for the name finds the line."""
    handlers = [(path, each) for path in sources() for each in handlers_in(path)]
    assert len(handlers) > 20
    found = [
        f"{path}:{each.lineno} {ast.unparse(each)}"
        for path, each in handlers
        if not (isinstance(each, ast.Constant) and each.value in functions_of(package_of(path)))
    ]
    assert found == []


def test_every_event_is_made_in_its_package():
    found = []
    for event in event_classes():
        package, name = event.__module__.split(".")[1], re.compile(rf"\b{event.__name__}\b")
        if not any(
            name.search(text)
            for path, text in sources().items()
            if package_of(path) == package and not DECLARATION.search(text)
        ):
            found.append(event.__qualname__)
    assert found == []
