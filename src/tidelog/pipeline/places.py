"""Places that a user names: paths of this machine, as text, as `Path`, or as `file:` addresses.

An address such as `s3://bucket/table` must not become a directory called `s3:`, which is what a
plain path makes of it.
"""

import os
import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from tidelog.errors import UsageError

Place = str | os.PathLike[str]
"""What every public function takes for a path."""

_ADDRESS: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/+(.*)", re.DOTALL)
"""One slash is enough: `Path("s3://b/x")` has made one of two."""


def split_address(place: Place) -> tuple[str, str] | None:
    """The scheme, in lower case, and what is behind its slashes; `None` for a path."""
    found = _ADDRESS.fullmatch(os.fspath(place))
    return None if found is None else (found[1].lower(), found[2])


def local_path(place: Place) -> Path:
    """The path. Raises `UsageError` for an address whose scheme is not `file`."""
    found = split_address(place)
    if found is None:
        return Path(place)
    scheme, rest = found
    if scheme != "file":
        raise UsageError(
            f"`{os.fspath(place)}` is an address of `{scheme}:`, which is not served",
            "give a path, or a `file:` address, that this machine and Spark's workers reach",
        )
    return Path("/" + unquote(rest))
