"""Nothing grows beyond what a reader can hold in mind."""

import re

from tests.tidy.ratchet import LONG_FUNCTIONS, LONG_MODULES, WIDE_CONSTRUCTORS, hold
from tests.tidy.source import product, texts

FUNCTION_LINES = 60
MODULE_LINES = 550
CONSTRUCTOR_ARGUMENTS = 7
COLUMNS = 100
PRAGMA = re.compile(r"  # (type|noqa|pragma).*$")


def test_functions_are_short():
    found = [
        f"{module.path}::{function.name}"
        for module in product()
        for function in module.functions
        if function.body_lines > FUNCTION_LINES
    ]
    hold(found, LONG_FUNCTIONS, f"functions of more than {FUNCTION_LINES} lines")


def test_modules_are_short():
    found = [
        path
        for path, text in texts().items()
        if path.startswith("src/") and text.count("\n") > MODULE_LINES
    ]
    hold(found, LONG_MODULES, f"modules of more than {MODULE_LINES} lines")


def test_constructors_are_narrow():
    """Dataclasses have no `__init__` of their own and are exempt: they are values."""
    found = [
        f"{module.path}::{function.name}"
        for module in product()
        for function in module.functions
        if function.name.endswith(".__init__") and function.arguments - 1 > CONSTRUCTOR_ARGUMENTS
    ]
    hold(found, WIDE_CONSTRUCTORS, f"constructors of more than {CONSTRUCTOR_ARGUMENTS} arguments")


def test_lines_fit():
    """Without the notes to the linters, and except for words that cannot be broken."""
    found = []
    for path, text in texts().items():
        if not path.endswith(".py"):
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            shown = PRAGMA.sub("", line)
            if len(shown) > COLUMNS and len(shown.split()) > 1:
                found.append(f"{path}:{number}")
    assert found == []
