"""Files that are there as a whole or as they were: a process may end while it writes."""

import os
from pathlib import Path
from typing import Final

UNFINISHED: Final = ".tmp"
"""How the name of a file ends that is still being written."""


def replace_file(path: Path, text: str, *, secret: bool = False) -> None:
    """Writes a file, or puts another one in its place; a secret one only this user may read."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}{UNFINISHED}")
    temporary.unlink(missing_ok=True)
    try:
        temporary.touch(mode=0o600 if secret else 0o666)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
