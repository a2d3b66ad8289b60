"""The archive of Spark's classes: made by the first session, used by the next ones.

`java` is a script here that does what Java does about archives: it notes its arguments, and writes
the file that its options name.
"""

import subprocess
from pathlib import Path

import pytest

from tidelog.pipeline.spark.class_archive import find_class_archive
from tidelog.pipeline.spark.java import Java, make_java_home

_SPARK = "org.apache.spark.deploy.SparkSubmit"
_JAVA = """\
#!/bin/sh
echo "$@" >>{noted}
for argument do
    case $argument in
        -XX:ArchiveClassesAtExit=*|-XX:AOTCache=*.[0-9]*) echo classes >"${{argument#*=}}" ;;
        exit=*) code=${{argument#*=}} ;;
        -XX:AOTMode=*) echo recorded ;;
        meanwhile=*) "${{argument#*=}}" {spark} ;;
    esac
done
exit ${{code:-0}}
"""


class Machine:
    """A Java, Spark's jars and a cache, below one directory."""

    def __init__(self, root: Path, version: int = 17) -> None:
        self.root = root
        self.noted = root / "noted"
        self.jar = root / "spark" / "jars" / "spark-core.jar"
        base = root / "jdk" / "lib" / "server" / "classes.jsa"
        executable = root / "jdk" / "bin" / "java"
        for path in (self.jar, base, executable):
            path.parent.mkdir(parents=True)
            path.write_text("1")
        executable.write_text(_JAVA.format(noted=self.noted, spark=_SPARK))
        executable.chmod(0o755)
        (root / "jdk" / "release").write_text(f'JAVA_VERSION="{version}"\n')
        self.java = Java(executable, version, "test")
        self.environ = {
            "PATH": "/usr/bin:/bin",
            "SPARK_HOME": str(root / "spark"),
            "XDG_CACHE_HOME": str(root / "cache"),
        }

    def find(self, **environ: str):
        return find_class_archive(self.java, {**self.environ, **environ})

    def run(self, *arguments: str) -> tuple[int, str]:
        """One start as Spark's launcher does it: exit code, and what Java was given last."""
        home = self.root / "home"
        make_java_home(self.java, home, archive_lines=self.find().shell_lines)
        done = subprocess.run([home / "bin" / "java", *arguments], check=False)
        return done.returncode, self.noted.read_text().splitlines()[-1]


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_the_first_session_leaves_an_archive_and_the_next_begins_from_it(machine):
    archive = machine.find().path
    _, first = machine.run("-Xmx1g", _SPARK, "exit=0")
    assert f"-XX:ArchiveClassesAtExit={archive}." in first
    assert first.endswith(f"-Xmx1g {_SPARK} exit=0")
    assert archive.read_text() == "classes\n"
    _, second = machine.run("-Xmx1g", _SPARK)
    assert f"-XX:SharedArchiveFile={archive} -Xmx1g" in second
    assert [path.name for path in archive.parent.iterdir() if path.is_file()] == [archive.name]


def test_newer_javas_make_it_in_two_steps_without_output(tmp_path, capfd):
    machine = Machine(tmp_path, 25)
    archive = machine.find().path
    _, last = machine.run(_SPARK)
    recorded = machine.noted.read_text().splitlines()[0]
    assert "-XX:AOTMode=record" in recorded
    assert capfd.readouterr().out == ""
    assert "-XX:AOTMode=create" in last
    assert archive.read_text() == "classes\n"
    _, second = machine.run(_SPARK)
    assert f"-XX:AOTCache={archive} " in second


def test_the_launcher_runs_without(machine):
    """Its argument is the class whose command it prints."""
    launcher = f"org.apache.spark.launcher.Main {_SPARK} --master local"
    assert machine.run(*launcher.split(" "))[1] == launcher


def test_an_archive_of_the_user_is_kept(machine):
    machine.run(_SPARK)
    own = f"-XX:SharedArchiveFile=own.jsa {_SPARK}"
    assert machine.run(*own.split(" "))[1] == own


def test_the_exit_code_is_that_of_java(machine):
    assert machine.run(_SPARK, "exit=3")[0] == 3
    assert machine.run(_SPARK, "exit=4")[0] == 4


def test_two_processes_may_make_it_at_once(machine):
    """A second process begins and ends while the first one runs."""
    archive = machine.find().path
    code, _ = machine.run(_SPARK, f"meanwhile={machine.root / 'home' / 'bin' / 'java'}")
    made = [line for line in machine.noted.read_text().splitlines() if "AtExit" in line]
    assert code == 0
    assert len({line.split("AtExit=")[1].split()[0] for line in made}) == 2
    assert archive.read_text() == "classes\n"
    assert [path.name for path in archive.parent.iterdir() if path.is_file()] == [archive.name]


def test_another_java_or_another_jar_is_another_archive(machine):
    found = [machine.find().path]
    machine.jar.write_text("22")
    found.append(machine.find().path)
    (machine.root / "jdk" / "release").write_text('JAVA_VERSION="17.0.99"\n')
    found.append(machine.find().path)
    assert len(set(found)) == 3
    assert machine.find().path == found[-1]


def test_old_archives_and_empty_files_go(machine):
    directory = machine.find().path.parent
    for number in range(6):
        (directory / f"{number}.jsa").write_text("classes")
    (directory / "9.jsa.77.conf").write_text("")
    machine.find()
    assert len([path for path in directory.iterdir() if path.is_file()]) == 3
    assert not (directory / "9.jsa.77.conf").exists()


@pytest.mark.parametrize(
    "environ",
    [
        {"TIDELOG_CLASS_ARCHIVE": "off"},
        {"SPARK_CONF_DIR": "/etc/spark"},
        {"XDG_CACHE_HOME": "/dev/null"},
        {"PATH": "/nowhere"},
    ],
)
def test_there_is_none_where_it_is_unwanted_or_cannot_be(machine, environ):
    assert machine.find() is not None
    assert machine.find(**environ) is None


def test_there_is_none_for_a_java_without_its_own(machine):
    (machine.root / "jdk" / "lib" / "server" / "classes.jsa").unlink()
    assert machine.find() is None


def test_one_that_is_there_may_be_used_and_none_be_made(machine):
    assert machine.find(TIDELOG_CLASS_ARCHIVE="use") is None
    machine.run(_SPARK)
    assert machine.find(TIDELOG_CLASS_ARCHIVE="use") == machine.find()
