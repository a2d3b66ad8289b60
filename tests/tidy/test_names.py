"""Names that say nothing, notes to oneself, modules without an introduction."""

import re

from tests.tidy.ratchet import PACKAGES_WITH_CODE, hold
from tests.tidy.source import all_modules, product, suite, texts

OWN = "tests/tidy/test_names.py"
EMPTY_WORDS = re.compile(r"(manager|util|helper)", re.IGNORECASE)
NOTES = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
WEAK_TESTS = re.compile(r"(^|\.)test_?(\d+|it|basic|simple|works|misc|stuff)?$")


def test_every_module_introduces_itself():
    """What it owns, in its docstring. Only a file without a line has nothing to say."""
    found = [
        module.path
        for module in all_modules()
        if module.docstring is None and texts()[module.path].strip()
    ]
    assert found == []


def test_packages_hold_no_logic():
    """`__init__` files describe the package and re-export, at once or when a name is asked for; any
    other function there would be hidden."""
    found = [
        module.path
        for module in product()
        if module.path.endswith("__init__.py") and set(module.top_level) - {"__getattr__"}
    ]
    hold(found, PACKAGES_WITH_CODE, "code in `__init__` files")


def test_names_say_what_a_thing_does():
    found = [
        module.path for module in product() if EMPTY_WORDS.search(module.path.rsplit("/", 1)[-1])
    ]
    found += [
        f"{module.path}::{name}"
        for module in product()
        for name in module.classes
        if EMPTY_WORDS.search(name)
    ]
    assert found == []


def test_no_notes_to_oneself():
    found = [
        f"{path}:{number}"
        for path, text in texts().items()
        if path != OWN and NOTES.search(text)
        for number, line in enumerate(text.splitlines(), start=1)
        if NOTES.search(line)
    ]
    assert found == []


def test_every_test_says_what_it_shows():
    """By its name: `test_1` or `test_basic` would not."""
    found = [
        f"{module.path}::{function.name}"
        for module in suite()
        for function in module.functions
        if WEAK_TESTS.search(function.name)
    ]
    assert found == []
