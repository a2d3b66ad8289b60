"""Goal: a process is known by more than its pid, and one that has ended is never signalled."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidelog.testing.processes import ProcessId, ProcessState
from tidelog.testing.waiting import wait_until

WAITS = "import sys; sys.stdin.read()"
ENDS_ITS_FIRST_THREAD = """
import ctypes, platform, sys, threading
threading.Thread(target=sys.stdin.read).start()
number = {"x86_64": 60, "aarch64": 93}[platform.machine()]
print(flush=True)
ctypes.CDLL(None).syscall(number, 0)
"""


@contextmanager
def child(code: str = WAITS) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that waits for its stdin to end."""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()
        process.stdout.close()


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


def test_a_process_has_ended_when_its_last_thread_has() -> None:
    """Until then it has its locks. A killed node whose flush waits for the disk is like that."""
    with child(ENDS_ITS_FIRST_THREAD) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = ProcessId.of(process.pid)
        stat = Path(f"/proc/{process.pid}/stat")
        wait_until(lambda: ") Z " in stat.read_text(), 10, "the end of the first thread")
        assert found is not None
        assert found.state is ProcessState.RUNNING
        process.kill()
        wait_until(lambda: found.state is ProcessState.STOPPED, 10, "end")
