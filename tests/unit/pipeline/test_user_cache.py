"""Where the cache is."""

from pathlib import Path

import pytest

from tidelog.pipeline.user_cache import cache_directory


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HOME": "/home/a"}, "/home/a/.cache/tidelog"),
        ({"HOME": "/home/a", "XDG_CACHE_HOME": "/fast"}, "/fast/tidelog"),
        ({"HOME": "/home/a", "XDG_CACHE_HOME": "relative"}, "/home/a/.cache/tidelog"),
        ({"HOME": "/home/a", "XDG_CACHE_HOME": ""}, "/home/a/.cache/tidelog"),
    ],
)
def test_the_directory_follows_the_environment(environ, expected):
    assert cache_directory(environ) == Path(expected)
