"""The index of decision records, from their titles."""

import re
from pathlib import Path
from typing import Final

from tools.reference.markdown import page, table

_DECISIONS: Final = Path(__file__).parents[2] / "docs" / "decisions"
_INTRODUCTION = """
A decision record says what was to be decided, what was chosen, what was refused, and what follows.
A record is not rewritten: a later one supersedes it and says so.
"""


def decisions_page() -> str:
    """`docs/decisions/index.md`."""
    rows = []
    superseded: dict[str, str] = {}
    records = sorted(_DECISIONS.glob("[0-9]*.md"))
    for path in records:
        if found := re.search(r"^Supersedes (\d{4})", path.read_text(), re.MULTILINE):
            superseded[found.group(1)] = path.name[:4]
    for path in records:
        title = path.read_text().split("\n", 1)[0].removeprefix("# ")
        number, _, words = title.partition(" ")
        by = superseded.get(number)
        rows.append((f"[{number}]({path.name})", words, f"superseded by {by}" if by else ""))
    return page("Decisions", _INTRODUCTION, (table(("record", "title", ""), rows),))
