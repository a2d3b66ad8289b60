"""Goal: what `examples/` shows works as it stands. Method: each is run as a reader would run it."""

import json
import os
import runpy
import subprocess
import sys

import pytest
from deltalake import DeltaTable

from tests.tidy.source import ROOT

EXAMPLES = ROOT / "examples"
NOTEBOOKS = sorted(EXAMPLES.rglob("*.ipynb"))


def run(*command: object, cwd=EXAMPLES) -> str:
    """What a command prints."""
    # Tests leave nothing in the user's cache.
    environment = {**os.environ, "TIDELOG_CLASS_ARCHIVE": "use"}
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.process
def test_the_service_passes_its_own_tests():
    assert "3 passed" in run("-m", "pytest", "-p", "no:cacheprovider", "service")


@pytest.mark.process
@pytest.mark.spark
def test_what_is_produced_is_consumed_and_streamed_once(spark, tidelog_cluster, tmp_path):
    """The stream runs twice: the second run, in this process, finds nothing new."""
    servers = tidelog_cluster.bootstrap_servers
    tidelog_cluster.create_topic("copied", partitions=3, replication_factor=3)
    assert run("clients/produce.py", servers, "copied", 500) == "500 records acknowledged\n"
    assert run("clients/consume.py", servers, "copied") == "500 records read\n"
    table = tmp_path / "copied"
    assert "500 rows in the table" in run("stream_to_delta/stream.py", servers, "copied", table)
    version = DeltaTable(table).version()
    runpy.run_path(str(EXAMPLES / "stream_to_delta/stream.py"))["stream"](
        spark, servers, "copied", str(table)
    )
    assert DeltaTable(table).version() == version


@pytest.mark.process
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run_from_top_to_bottom(notebook):
    """Their cells hold assertions; a kernel would add nothing but its weight."""
    cells = json.loads(notebook.read_text())["cells"]
    assert cells
    names: dict[str, object] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], "a notebook is kept without its outputs"
            exec(compile("".join(cell["source"]), notebook.name, "exec"), names)


def test_every_example_is_in_the_table():
    folders = {
        path.name for path in EXAMPLES.iterdir() if path.is_dir() and path.name != "__pycache__"
    }
    text = (EXAMPLES / "README.md").read_text()
    assert [name for name in sorted(folders) if f"`{name}/`" not in text] == []
