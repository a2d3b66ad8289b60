"""Where the cache is."""

from pathlib import Path

import pytest

from tidelog.pipeline.spark.user_cache import cache_directory


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HOME": "/users/a"}, "/users/a/.cache/tidelog"),
        ({"HOME": "/users/a", "XDG_CACHE_HOME": "/fast"}, "/fast/tidelog"),
        ({"HOME": "/users/a", "XDG_CACHE_HOME": "relative"}, "/users/a/.cache/tidelog"),
        ({"HOME": "/users/a", "XDG_CACHE_HOME": ""}, "/users/a/.cache/tidelog"),
    ],
)
def test_the_directory_follows_the_environment(environ, expected):
    assert cache_directory(environ) == Path(expected)
