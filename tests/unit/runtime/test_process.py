"""Goal: a node does not start in a process that would weaken it."""

import subprocess
import sys


def test_python_without_assertions_is_refused() -> None:
    code = (
        "from tidelog.runtime.process import require_assertions\n"
        "from tidelog.errors import UsageError\n"
        "try:\n    require_assertions()\nexcept UsageError as error:\n    print(error.message)"
    )
    done = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, check=True)
    assert b"Python runs with -O" in done.stdout
