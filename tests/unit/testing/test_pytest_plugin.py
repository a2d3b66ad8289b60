"""Goal: the plugin, which every pytest session loads, is light, and its fixture is there."""

import subprocess
import sys


def test_loading_the_plugin_imports_nothing_heavy() -> None:
    code = (
        "import sys\nimport tidelog.testing.pytest_plugin\n"
        "heavy = {'kio', 'uvloop', 'typer', 'tidelog.config', 'tidelog.testing.local_cluster'}\n"
        "sys.exit(sorted(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_fixture_is_known_to_pytest() -> None:
    command = [sys.executable, "-m", "pytest", "--fixtures", "--collect-only", "-q", __file__]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "tidelog_cluster [session scope]" in done.stdout, done.stdout + done.stderr
