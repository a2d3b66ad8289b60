"""Goal: a process is known by more than its pid, and one that has ended is never signalled."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tidelog.testing.processes import ProcessId, ProcessState
from tidelog.testing.waiting import wait_until


@contextmanager
def child() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that waits for its stdin to end."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


def test_a_process_runs_pauses_and_ends() -> None:
    with child() as process:
        found = ProcessId.of(process.pid)
        assert found is not None
        assert found.state is ProcessState.RUNNING
        assert found.send(signal.SIGSTOP)
        wait_until(lambda: found.state is ProcessState.PAUSED, 10, "pause")
        assert found.send(signal.SIGCONT)
        wait_until(lambda: found.state is ProcessState.RUNNING, 10, "resume")
        assert found.send(signal.SIGKILL)
        # Not reaped yet: a zombie counts as stopped.
        wait_until(lambda: found.state is ProcessState.STOPPED, 10, "end")
        assert not found.send(signal.SIGTERM)
        assert ProcessId.of(process.pid) is None


def test_a_recycled_pid_is_another_process() -> None:
    """Method: this process's pid with another start time, as if the pid had been used again."""
    here = ProcessId.of(os.getpid())
    assert here is not None
    recycled = ProcessId(here.pid, here.started + "0")
    assert recycled.state is ProcessState.STOPPED
    assert not recycled.send(signal.SIGKILL)


def test_a_free_pid_is_not_a_process() -> None:
    assert ProcessId.of(2**22 + 1) is None
