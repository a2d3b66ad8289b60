"""Goal: the launcher starts what can start and reports, for each node, how it went.

Method: the real launcher in a process of its own with real nodes; the whole life of a cluster is
in `tests/process`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.unit.config.test_resolve import MINIMAL
from tests.unit.runtime.harness import TIMEOUT_S

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"


def launch(order: dict[str, Any], **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs the launcher with an order."""
    return subprocess.run(
        [sys.executable, "-m", "tidelog.runtime.launch"],
        input=json.dumps(order),
        capture_output=True,
        text=True,
        timeout=4 * TIMEOUT_S,
        check=False,
        **options,
    )


def item(directory: Path, text: str) -> dict[str, str]:
    """One node of an order."""
    directory.mkdir()
    file = directory / "server.properties"
    file.write_text(text)
    return {
        "properties": str(file),
        "log_file": str(directory / "server.log"),
        "cluster_id": CLUSTER,
    }


def test_refusals_are_reported_one_by_one(tmp_path: Path) -> None:
    good = MINIMAL.replace("log.dirs=data", f"log.dirs={tmp_path / 'file'}")
    (tmp_path / "file").write_text("no directory")
    order = {
        "nodes": [
            item(tmp_path / "a", MINIMAL + "tidelog.metric.port=1\n"),
            item(tmp_path / "b", good),
            {**item(tmp_path / "c", MINIMAL), "log_file": str(tmp_path / "none" / "server.log")},
        ]
    }
    done = launch(order)
    assert done.returncode == 0, done.stderr
    typo, no_directory, no_log = json.loads(done.stdout)["nodes"]
    assert "unknown property `tidelog.metric.port`" in typo["error"]
    assert typo["hint"] == "did you mean `tidelog.metrics.port`?"
    assert no_directory["error"]
    assert "cannot be written" in no_log["error"]


def test_an_empty_order_is_done_at_once() -> None:
    assert json.loads(launch({"nodes": []}).stdout) == {"nodes": []}


def test_python_without_assertions_is_refused() -> None:
    done = launch({"nodes": []}, env={**os.environ, "PYTHONOPTIMIZE": "1"})
    assert done.returncode == 2
    assert "Python runs with -O" in done.stderr
    assert "hint:" in done.stderr
