"""Files of the user that stand in for Python's own modules.

Spark's workers put the working directory, and what `PYTHONPATH` names, in front of Python's
library. So a file `grp.py` beside a job is what a worker imports as `grp`. It ends with an error
that names neither the file nor the cause.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_STANDARD: Final = sys.stdlib_module_names - frozenset(sys.builtin_module_names)
_LIBRARY: Final = Path(os.__file__).parent
HINT: Final = "rename it, or start the job from another directory"


def shadowing_files(directory: Path, environ: Mapping[str, str]) -> list[Path]:
    """The files and packages that workers started in `directory` take for Python's own."""
    listed = environ.get("PYTHONPATH", "").split(os.pathsep)
    places = dict.fromkeys([directory, *(directory / place for place in listed if place)])
    return [file for place in places if place != _LIBRARY for file in _shadowing(place)]


def _shadowing(place: Path) -> Iterator[Path]:
    if not place.is_dir():
        return
    for file in sorted(place.iterdir()):
        if file.suffix == ".py" and file.stem in _STANDARD:
            yield file
        elif file.name in _STANDARD and (file / "__init__.py").is_file():
            yield file / "__init__.py"


def standard_name(file: Path) -> str:
    """The module that a file stands in for."""
    return file.parent.name if file.stem == "__init__" else file.stem
