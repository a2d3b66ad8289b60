"""The `--rewrite` option of golden scripts."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Registers `--rewrite`; give a path under `tests/scripts` with it."""
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write the answers of golden scripts into their files instead of comparing",
    )


@pytest.fixture
def rewrite_scripts(request: pytest.FixtureRequest) -> bool:
    """Whether scripts are to be rewritten."""
    return bool(request.config.getoption("--rewrite", default=False))
