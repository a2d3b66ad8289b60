"""`python -m tools.reference` writes every generated page; with `--check` it names stale ones."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tools.reference.apis import apis_page
from tools.reference.commands import commands_page
from tools.reference.compatibility import compatibility_page
from tools.reference.configuration import configuration_page
from tools.reference.decisions import decisions_page
from tools.reference.errors import errors_page
from tools.reference.events import events_page
from tools.reference.metrics import metrics_page

DOCS: Final = Path(__file__).parents[2] / "docs"
PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "compat.md": compatibility_page,
    "reference/apis.md": apis_page,
    "reference/command-line.md": commands_page,
    "reference/configuration.md": configuration_page,
    "reference/errors.md": errors_page,
    "reference/events.md": events_page,
    "reference/metrics.md": metrics_page,
    "decisions/index.md": decisions_page,
}
"""What makes each page, by its path below `docs/`."""


def is_stale(name: str) -> bool:
    """Whether a page is missing or differs from what the code says."""
    path = DOCS / name
    return not path.exists() or path.read_text() != PAGES[name]()


def main() -> int:
    """Writes stale pages, or only names them."""
    stale = [name for name in PAGES if is_stale(name)]
    for name in stale:
        if "--check" in sys.argv[1:]:
            sys.stdout.write(f"docs/{name} is stale: run `make reference`\n")
            continue
        (DOCS / name).parent.mkdir(parents=True, exist_ok=True)
        (DOCS / name).write_text(PAGES[name]())
        sys.stdout.write(f"docs/{name}\n")
    return 1 if stale and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
