"""The user's cache directory: `~/.cache/tidelog`, or below `XDG_CACHE_HOME`."""

from collections.abc import Mapping
from pathlib import Path


def cache_directory(environ: Mapping[str, str]) -> Path:
    """The directory, which may not exist yet."""
    base = environ.get("XDG_CACHE_HOME", "")
    home = Path(environ.get("HOME") or Path.home())
    return (Path(base) if Path(base).is_absolute() else home / ".cache") / "tidelog"
