"""Goal: the script ends with the command's code and leaves no launcher behind."""

import subprocess
import sys
from pathlib import Path


def script(*arguments: str, directory: Path) -> "subprocess.CompletedProcess[str]":
    """Runs the entry point in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "tidelog.cli.main", *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_code_of_the_command_is_the_code_of_the_script(tmp_path: Path) -> None:
    assert script("--version", directory=tmp_path).returncode == 0
    done = script("status", directory=tmp_path)
    assert done.returncode == 2
    assert "hint:" in done.stderr


def test_a_refused_up_ends_its_launcher_and_leaves_nothing(tmp_path: Path) -> None:
    """Method: the script's pipes stay open as long as any child of it lives."""
    done = script("up", "--brokers", "none", directory=tmp_path)
    assert done.returncode == 2
    assert "none" in done.stderr
    assert list(tmp_path.iterdir()) == []
