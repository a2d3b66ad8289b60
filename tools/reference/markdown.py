"""Pieces of Markdown that all generated pages share."""

import inspect
from collections.abc import Iterable, Sequence
from typing import Final

NOTICE: Final = "<!-- Made from the code by `make reference`; do not edit. -->"


def page(title: str, introduction: str, sections: Iterable[str]) -> str:
    """A whole page: the notice, a title, an introduction and sections."""
    parts = [NOTICE, f"# {title}", introduction.strip(), *sections]
    return "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"


def section(title: str, *parts: str, level: int = 2) -> str:
    """A heading and what stands below it; empty parts are left out."""
    return "\n\n".join([f"{'#' * level} {title}", *(part for part in parts if part.strip())])


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; empty without rows."""
    lines = [_row(cells) for cells in rows]
    if not lines:
        return ""
    return "\n".join([_row(columns), _row(["---"] * len(columns)), *lines])


def _row(cells: Sequence[str]) -> str:
    # A bar ends a cell wherever it stands, also in code.
    shown = [" ".join(cell.split()).replace("|", "\\|") for cell in cells]
    return f"| {' | '.join(shown)} |"


def code(text: str) -> str:
    """Text as code; empty text stays empty."""
    return f"`{text}`" if text else ""


def first_paragraph(documented: object) -> str:
    """The first paragraph of a docstring on one line."""
    text = inspect.getdoc(documented) or ""
    return " ".join(text.split("\n\n")[0].split())
