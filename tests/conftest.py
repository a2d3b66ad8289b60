"""What holds for all tests: a table is as wide as in a pipe, wherever they run, and what is dear to
start is started in one process only."""

import os

import pytest

# pytest-xdist sets 80 for its workers.
os.environ.pop("COLUMNS", None)

GROUPS = {
    "tests/pipeline/": "spark",
    "tests/examples/": "spark",
    "tests/process/": "nodes",
    "tests/chaos/": "nodes",
}
"""Tests that one process of `--dist loadgroup` runs in turn: those of Spark share its session, and
those that kill nodes mostly wait, beside it."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests by their folder."""
    for item in items:
        for folder, group in GROUPS.items():
            if item.nodeid.startswith(folder):
                item.add_marker(pytest.mark.xdist_group(group))
