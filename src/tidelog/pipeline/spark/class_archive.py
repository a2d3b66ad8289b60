"""Spark's classes as a file that Java maps into memory: half of a session's start is loading them.

Java can write the classes that a process loaded, parsed and verified, into an archive when the
process ends, and begin the next process from it (class data sharing; JEP 350, from Java 24 on as
an AOT cache, JEP 483). The first session on a machine writes the archive, in its last seconds, and
all later ones use it. The file's name is a hash over Java and Spark's jars: when either changes,
it is another file, and the first session writes that.

- Two processes that start at once both write, each to a name of its own; the last one to finish
  renames its file over the other's. A process that has mapped the old file keeps it.
- A Java that cannot use the archive (another class path, a heap so large that pointers are not
  compressed) starts without it, and logs nothing.
- The class path must hold no directory with files in it. Spark's configuration directory is on it,
  so it is an empty one, and Java gets the configuration by options.

There is no archive where the environment variable `TIDELOG_CLASS_ARCHIVE` is `off` (with `use`, an
existing one is used and none is made), where the user sets `SPARK_CONF_DIR`, where the cache
directory cannot be written, and for a Java from 17 to 23 without the archive of its own classes, on
which ours would be built.
"""

import hashlib
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidelog.pipeline.spark.java import Java, spark_home
from tidelog.pipeline.spark.user_cache import cache_directory

SWITCH: Final = "TIDELOG_CLASS_ARCHIVE"
OFF: Final = "off"
USE: Final = "use"
ARCHIVES: Final = "spark-classes"
_AOT_SINCE: Final = 24
_KEPT: Final = 3
"""Files that stay in the cache, each some 160 MB: those last written."""
# Java would log an unfit archive to stdout, which belongs to the user.
_QUIET: Final = "-Xlog:disable -Xlog:all=error:stderr"

_LINES: Final = """\
if [ "$is_spark" = yes ] && [ -f {archive} ]; then
    set -- {quiet} {use} "$@"
elif [ "$is_spark" = yes ]; then
    new={archive}.$$
    {java} {quiet} {record} "$@"{redirection}{aside}
    code=$?
    {create}[ ! -s "$new" ] || {mv} -f "$new" {archive}
    exit $code
fi
"""
# From Java 24 on the first process records the loaded classes, and prints to stdout. A second
# process makes the archive from the record, and prints its whole class path.
_CREATE: Final = """\
{java} -XX:AOTMode=create -XX:AOTConfiguration="$new.conf" -XX:AOTCache="$new" "$@" >/dev/null 2>&1
    : >"$new.conf"
    """


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """One archive file, there already or not."""

    path: Path
    is_aot: bool
    """The kind of Java 24 and newer."""
    mv: str

    def shell_lines(self, java: Java, redirection: str) -> str:
        """Lines for a script that is about to run Java with its arguments, and knows by
        `$is_spark` being `yes` that this is Spark."""
        archive, executable = shlex.quote(str(self.path)), shlex.quote(str(java.executable))
        if self.is_aot:
            use = f"-XX:AOTCache={archive}"
            record = '-XX:AOTMode=record -XX:AOTConfiguration="$new.conf"'
        else:
            use = f"-XX:SharedArchiveFile={archive}"
            record = '-XX:ArchiveClassesAtExit="$new"'
        return _LINES.format(
            archive=archive,
            java=executable,
            mv=shlex.quote(self.mv),
            quiet=_QUIET,
            use=use,
            record=record,
            aside=" >&2" if self.is_aot else "",
            create=_CREATE.format(java=executable) if self.is_aot else "",
            redirection=redirection,
        )


def find_class_archive(java: Java, environ: Mapping[str, str]) -> ClassArchive | None:
    """The archive for this Java and these jars; `None` where there is none (see the module)."""
    mv = shutil.which("mv", path=environ.get("PATH"))
    jars = spark_home(environ) / "jars"
    switch = environ.get(SWITCH, "").lower()
    if switch == OFF or environ.get("SPARK_CONF_DIR") or mv is None:
        return None
    is_aot = java.version >= _AOT_SINCE
    home = java.executable.resolve().parent.parent
    if not is_aot and not (home / "lib" / "server" / "classes.jsa").is_file():
        return None
    directory = cache_directory(environ) / ARCHIVES
    try:
        (directory / "no-conf").mkdir(parents=True, exist_ok=True)
        _drop_old(directory)
    except OSError:
        return None
    path = directory / f"{_key(java, home, jars)}.jsa"
    return ClassArchive(path, is_aot, mv) if switch != USE or path.is_file() else None


def empty_conf_directory(archive: ClassArchive) -> Path:
    """The same empty directory for all sessions, for the class path."""
    return archive.path.parent / "no-conf"


def _key(java: Java, home: Path, jars: Path) -> str:
    """16 hexadecimal digits over what the archive depends on."""
    digest = hashlib.blake2b(str(java.executable).encode(), digest_size=8)
    release = home / "release"
    digest.update(release.read_bytes() if release.is_file() else b"%d" % java.version)
    for jar in sorted(jars.glob("*.jar")):
        status = jar.stat()
        digest.update(b"%s %d %d\n" % (str(jar).encode(), status.st_size, status.st_mtime_ns))
    return digest.hexdigest()


def _drop_old(directory: Path) -> None:
    """Deletes all archives but the last ones, and the empty ones of dead processes."""
    files = [path for path in directory.iterdir() if path.is_file()]
    empty = [path for path in files if not path.stat().st_size]
    full = sorted(set(files) - set(empty), key=lambda path: path.stat().st_mtime_ns)
    for path in (*empty, *full[:-_KEPT]):
        path.unlink(missing_ok=True)
