"""The page of events, from the event classes of all packages."""

import inspect
from collections.abc import Iterator
from dataclasses import fields
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Any, cast, get_args, get_type_hints

import tidelog
from tidelog.env.event import Event
from tools.reference.markdown import code, first_paragraph, page, section, table

_ROOT = Path(tidelog.__file__).parent
_INTRODUCTION = """
A node makes an event where it decides something. A log line, a line of `events.jsonl`, the
simulator's marks and `tidelog spark health` are all printed from the same event. A heading has the
event's class, then the decision that its log line shows. *Handler* is the function under which it
was decided. *Kind* is the name that an event has in [event files](event-files.md); an event without
a kind is logged only. An event of level MEASURE, most of them figures, is only in event files and
never logged.

When many events of a class come with the same decision and reason, the log has ten lines a second
of them and counts the others in one line: when the burst is over, or after ten seconds. What all
have in common is shown, and of numbers that differ the least and the greatest. Event files have
every event.

    orders-17, orders-18, orders-21 and 1011 more become_leader: leads leader_epoch=7
    epoch_start=0..4711 last=orders-1023 within_ms=2140
"""


def events_page() -> str:
    """`docs/reference/events.md`."""
    by_package: dict[str, list[type[Event]]] = {}
    for event in sorted(event_classes(), key=lambda each: (each.__module__, each.__name__)):
        by_package.setdefault(event.__module__.split(".")[1], []).append(event)
    sections = [
        section(f"`{package}`", *(_event(event) for event in events))
        for package, events in by_package.items()
    ]
    return page("Events", _INTRODUCTION, sections)


def event_classes() -> list[type[Event]]:
    """Every event that is made somewhere: in the packages' modules of events."""
    modules = set()
    for path in sorted({*_ROOT.rglob("*events.py"), *_ROOT.rglob("events/*.py")}):
        module = ".".join(("tidelog", *path.relative_to(_ROOT).with_suffix("").parts))
        # Spark's reader of event files declares no events.
        if not module.startswith("tidelog.pipeline."):
            import_module(module)
            modules.add(module)
    declared = {each for each in _below(Event) if each.__module__ in modules and _is_current(each)}
    # A base leaves the decision to its subclasses.
    return [each for each in declared if _decides(each) or declared.isdisjoint(_below(each))]


def _below(base: type[Event]) -> Iterator[type[Event]]:
    for each in base.__subclasses__():
        yield each
        yield from _below(each)


def _decides(event: type[Event]) -> bool:
    return isinstance(cast(object, event.decision), str)


def _is_current(event: type[Event]) -> bool:
    # `slots=True` makes a second class; the first one stays a subclass until it is collected.
    return getattr(import_module(event.__module__), event.__name__, None) is event


def _event(event: type[Event]) -> str:
    kind = event.kind
    facts = [f"{event.level.name}", f"handler {code(_text(event.handler))}"]
    if kind is not None:
        facts.insert(0, f"kind {code(kind.value)}")
    hints = get_type_hints(event)
    names = [each.name for each in fields(cast(Any, event))]
    rows = [(code(name), code(_type(hints[name]))) for name in names]
    values = [
        f"Values of `{name}`:\n\n{listed}" for name in names if (listed := _members(hints[name]))
    ]
    return section(
        f"{event.__name__}: {_text(event.decision)}",
        first_paragraph(event),
        ", ".join(facts) + ".",
        table(("field", "type"), rows),
        *values,
        level=3,
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else "by its values"


def _type(hint: Any) -> str:
    if isinstance(hint, UnionType) or get_args(hint):
        return str(hint).replace("tidelog.", "").replace("typing.", "")
    return hint.__name__ if inspect.isclass(hint) else str(hint)


def _members(hint: Any) -> str:
    choices = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    for each in choices:
        if inspect.isclass(each) and issubclass(each, StrEnum):
            return "\n".join(f"- {code(member.value)}" for member in each)
    return ""
