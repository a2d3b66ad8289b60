"""Below the runtime there is no clock, no randomness and no I/O; tests neither sleep nor mock."""

import configparser

from tests.tidy.ratchet import SLEEPS_IN_TESTS, hold
from tests.tidy.source import BELOW_RUNTIME, ROOT, below_runtime, suite

PROCESS_TESTS = ("tests/process/", "tests/pipeline/", "tests/chaos/", "tests/differential/")
"""Tests of real processes, which have to poll."""


def forbidden_modules() -> set[str]:
    """The list of the import linter, so that there is one."""
    linter = configparser.ConfigParser()
    linter.read(ROOT / ".importlinter")
    section = linter["importlinter:contract:no-io-in-the-core"]
    return set(section["forbidden_modules"].split())


def test_the_import_linter_forbids_what_would_break_a_replay():
    needed = {"asyncio", "threading", "time", "datetime", "random", "secrets", "uuid", "os"}
    assert needed | {"socket", "pathlib", "logging"} <= forbidden_modules()


def test_every_package_below_the_runtime_is_in_the_contract():
    linter = configparser.ConfigParser()
    linter.read(ROOT / ".importlinter")
    listed = set(linter["importlinter:contract:no-io-in-the-core"]["source_modules"].split())
    named = {f"tidelog.{place.removesuffix('.py').replace('/', '.')}" for place in BELOW_RUNTIME}
    assert listed == named


def test_no_forbidden_import_below_the_runtime():
    """Also inside functions, where the import linter sees it too, and in strings of types."""
    forbidden = forbidden_modules()
    found = [
        f"{module.path}:{line} imports {name}"
        for module in below_runtime()
        for name, line in module.imports
        if name.split(".")[0] in forbidden
    ]
    assert found == []


def test_no_builtin_io_below_the_runtime():
    banned = {"open", "print", "input", "exec", "eval", "__import__", "breakpoint", "hash", "id"}
    found = [
        f"{module.path}:{line} calls {name}"
        for module in below_runtime()
        for name, line in module.calls
        if name in banned
    ]
    assert found == []


def test_tests_do_not_sleep():
    found = [
        f"{module.path}"
        for module in suite()
        if not module.path.startswith(PROCESS_TESTS)
        for name, _ in module.calls
        if name.rsplit(".", 1)[-1] == "sleep"
    ]
    hold(found, SLEEPS_IN_TESTS, "sleeps outside of the tests of real processes")


def test_tests_do_not_mock():
    """A test double passes the suite of what it stands for; it never records calls."""
    banned = {"mock", "unittest", "pytest_mock", "hypothesis"}
    found = [
        f"{module.path}:{line} imports {name}"
        for module in suite()
        for name, line in module.imports
        if banned & set(name.split("."))
    ]
    assert found == []


def test_tests_do_not_give_up():
    """A test that is skipped or expected to fail shows nothing."""
    banned = {"skip", "skipif", "xfail", "importorskip"}
    found = []
    for module in suite():
        for name, line in module.calls:
            owner, _, last = name.rpartition(".")
            if last in banned and owner.startswith("pytest"):
                found.append(f"{module.path}:{line} {name}")
    assert found == []
