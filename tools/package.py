"""`make package`: builds sdist and wheel, and runs the wheel where nothing else is installed.

The wheel is built from the sdist, so both are complete. A fresh environment then gets the wheel
without extras, as `uvx tidelog` or `pipx run tidelog` would, and starts and stops a cluster.
"""

import json
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[1]
_PACKAGES: Final = {"tidelog", "pyspark_tidelog", "pyspark_tidelog_segments"}


def build(target: Path) -> Path:
    """Builds both distributions into a directory; returns the wheel."""
    command = [sys.executable, "-m", "build", "--outdir", str(target), str(_ROOT)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = target.glob("*.whl")
    (_sdist,) = target.glob("*.tar.gz")
    return wheel


def check_contents(wheel: Path) -> None:
    """The wheel has the packages and their type information, and nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    found = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert found == _PACKAGES, f"the wheel holds {sorted(found)}"
    assert "tidelog/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def try_wheel(wheel: Path, directory: Path) -> None:
    """Installs the wheel alone, and runs a cluster from it."""
    environment = directory / "environment"
    venv.create(environment, with_pip=True)
    binaries = environment / "bin"
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)]
    subprocess.run([binaries / "python", *install], check=True)
    subprocess.run([binaries / "python", "-m", "pip", "check"], check=True)

    def tidelog(*arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [binaries / "tidelog", *arguments],
            cwd=directory,
            env={"PATH": str(binaries)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, f"tidelog {arguments}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    sys.stdout.write(tidelog("--version"))
    assert "pip install tidelog[demo]" in tidelog("demo", code=2)
    up = json.loads(tidelog("up", "--detach", "--base-port", "0", "--output", "json"))
    try:
        assert len(up["nodes"]) == 3
        tidelog("topics", "create", "orders", "--partitions", "3", "--replication-factor", "3")
        assert "orders" in tidelog("topics", "list")
        tidelog("status")
    finally:
        tidelog("down")


def main() -> int:
    """Builds and tries."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        wheel = build(directory / "dist")
        check_contents(wheel)
        try_wheel(wheel, directory)
        sys.stdout.write(f"{wheel.name}: {wheel.stat().st_size:,} bytes, ran a cluster\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
