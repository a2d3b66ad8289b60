"""SIGINT and SIGTERM end a command that works for long: no process and no file is left behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import typer

from tidelog.cli.app import app
from tidelog.testing.waiting import wait_until

pytestmark = pytest.mark.process

TIMEOUT_S: Final = 60
END_S: Final = 1.0
"""For processes that were killed to be gone. The work that they were in takes longer."""
INTERRUPTED: Final = 130

LONG: Final = {
    "sim run": ("--seeds", "1:100000", "--jobs", "2"),
    "sim replay": ("4",),
    "sim ablate": ("--jobs", "2"),
    "sim regressions": (),
    "sim sweep": ("--jobs", "2"),
    "sim campaign": ("--jobs", "2"),
}
"""Commands that need nothing but time."""

WITH_OTHERS: Final = {
    *("up", "server", "produce", "consume", "demo"),
    *("spark campaign", "spark ingest", "spark compact", "spark export", "spark health"),
    *("spark shell", "spark fetch-jars", "spark package", "spark doctor", "spark audit"),
}
"""Long ones that need nodes, Spark or a network."""

SHORT: Final = {
    *("down", "status", "format", "random-uuid", "dump-log", "spark checkpoint show"),
    *("nodes kill", "nodes stop", "nodes pause", "nodes resume", "nodes start"),
    *("topics create", "topics list", "topics describe", "topics alter", "topics delete"),
    *("groups list", "groups describe", "groups reset-offsets", "groups delete"),
    *("transactions list", "transactions describe", "transactions find-hanging"),
    *("transactions abort", "brokers unregister", "records delete"),
    *("acls list", "acls add", "acls remove", "users list", "users add", "users remove"),
    *("quotas list", "quotas add", "quotas remove", "quorum describe"),
    *("quorum add-controller", "quorum remove-controller"),
    *("migrate check", "migrate plan", "sim list"),
}
"""Those that end by themselves at once, or when their calls are answered or time out."""


def names_in(command: object, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Every command below one, as it is typed."""
    below = getattr(command, "commands", None)
    if below is None:
        yield " ".join(path)
    else:
        for name, one in below.items():
            yield from names_in(one, (*path, name))


def test_every_command_is_known_to_be_short_or_long() -> None:
    """A new command needs a line above."""
    known = [*LONG, *WITH_OTHERS, *SHORT]
    assert sorted(names_in(typer.main.get_command(app))) == sorted(known)


def cpu_seconds(process_id: int) -> float:
    """How long a process has computed."""
    stat = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return int(stat[11]) / os.sysconf("SC_CLK_TCK")


class Running:
    """A command in a session of its own."""

    def __init__(self, place: Path, command: list[str]) -> None:
        self.files = place / "tmp"
        self.files.mkdir()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tidelog.cli.main", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            cwd=place,
            env={**os.environ, "TMPDIR": str(self.files)},
        )

    def others(self) -> dict[int, str]:
        """The command lines of the other processes of its session that have not ended."""
        found = {}
        for place in Path("/proc").glob("[0-9]*"):
            try:
                state, _, _, session = (place / "stat").read_text().rpartition(")")[2].split()[:4]
                line = (place / "cmdline").read_text().replace("\0", " ")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(session) == self.process.pid != int(place.name) and state != "Z":
                found[int(place.name)] = line
        return found

    def is_at_work(self, name: str) -> bool:
        """Whether the command is in the middle of its work; a campaign, of its second look at a
        seed, which is in a process of its own."""
        assert self.process.poll() is None, self.process.communicate()
        if name == "sim campaign":
            return any("replay" in line for line in self.others().values())
        if "2" not in LONG[name]:
            return cpu_seconds(self.process.pid) > 2
        workers = list(self.others())
        return len(workers) == 2 and min(map(cpu_seconds, workers)) > 0.2


@pytest.fixture
def _interruptible() -> Iterator[None]:
    """A shell starts what it puts into the background with SIGINT ignored, which is inherited."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda one: one.name)
@pytest.mark.parametrize("name", LONG)
def test_a_signal_ends_it(tmp_path: Path, name: str, number: signal.Signals) -> None:
    """A campaign, which goes on until then, shows what it has found so far."""
    running = Running(tmp_path, [*name.split(), *LONG[name]])
    try:
        wait_until(lambda: running.is_at_work(name), TIMEOUT_S, "work")
        running.process.send_signal(number)
        _, errors = running.process.communicate(timeout=TIMEOUT_S)
        wait_until(lambda: not running.others(), END_S, "the end of its processes")
        assert not list(running.files.iterdir())
        is_campaign = name == "sim campaign"
        kept = "interrupted: the rounds that ended are kept\n"
        code = 0 if is_campaign else INTERRUPTED
        assert (running.process.returncode, errors) == (code, kept if is_campaign else "")
    finally:
        running.process.kill()
        # They have the other ends of the pipes.
        for process_id in running.others():
            os.kill(process_id, signal.SIGKILL)
        running.process.communicate()
