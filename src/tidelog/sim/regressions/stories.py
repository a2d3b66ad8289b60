"""All stories by number, with what their docstrings say of them.

A docstring is a title, then three marked paragraphs: where the bug was (`Origin`), what happens
(`Story`), what must come of it (`Must`).
"""

import inspect
import re
from dataclasses import dataclass
from typing import Final

from tidelog.sim.regressions import (
    devices,
    in_sync,
    late_answers,
    own_rules,
    producers,
    quorum,
    readers,
    terms,
    truncation,
)
from tidelog.sim.regressions.scene import Play

_NAME: Final = re.compile(r"^([rs]\d\d)_(\w+)$")
_PARTS: Final = re.compile(r"^(Origin|Story|Must): ", re.MULTILINE)
_FAMILIES: Final = (
    truncation,
    late_answers,
    in_sync,
    terms,
    devices,
    producers,
    readers,
    quorum,
    own_rules,
)


@dataclass(frozen=True, slots=True)
class Story:
    """A scenario that must go well."""

    number: str
    name: str
    """The function's name, number included."""
    title: str
    origin: str
    story: str
    must: str
    play: Play


def _read(name: str, play: Play) -> Story:
    text = inspect.getdoc(play) or ""
    title, *rest = _PARTS.split(text)
    parts = dict(zip(rest[::2], rest[1::2], strict=True))
    assert set(parts) == {"Origin", "Story", "Must"}, f"{name} says only {sorted(parts)}"
    origin, story, must = (" ".join(parts[key].split()) for key in ("Origin", "Story", "Must"))
    return Story(name[:3], name, " ".join(title.split()).rstrip("."), origin, story, must, play)


def _collect() -> dict[str, Story]:
    found = [
        _read(name, play)
        for family in _FAMILIES
        for name, play in vars(family).items()
        if _NAME.match(name)
    ]
    stories = {story.number: story for story in sorted(found, key=lambda story: story.number)}
    assert len(stories) == len(found), "two stories have one number"
    return stories


STORIES: Final = _collect()
"""By number: `r01`."""
