"""Processes by pid *and* start time, so that a recycled pid is never signalled."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path


class ProcessState(Enum):
    """What a node's process does."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class ProcessId:
    """One process of this machine, for good."""

    pid: int
    started: str
    """When it started, in the form that the system has; equal for the same process only."""

    @classmethod
    def of(cls, pid: int) -> "ProcessId | None":
        """The live process that has this pid now."""
        found = _look_up(pid)
        return None if found is None else cls(pid, found[1])

    @property
    def state(self) -> ProcessState:
        """Whether it runs; a process that has ended and was not reaped counts as stopped."""
        found = _look_up(self.pid)
        if found is None or found[1] != self.started:
            return ProcessState.STOPPED
        return ProcessState.PAUSED if found[0] in "Tt" else ProcessState.RUNNING

    def send(self, number: signal.Signals) -> bool:
        """Signals it; false when it is not there any more."""
        if self.state is ProcessState.STOPPED:
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True


def _look_up(pid: int) -> tuple[str, str] | None:
    """State letter and start time of a process that has not ended."""
    found = _from_proc(pid) if sys.platform == "linux" else _from_ps(pid)
    return None if found is None or found[0] in "ZX" else found


def _from_proc(pid: int) -> tuple[str, str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command name, which may hold anything, stands in parentheses before the other fields.
    fields = text.rpartition(")")[2].split()
    state, threads, started = fields[0], int(fields[17]), fields[19]
    # Its first thread has ended; another one waits for a disk, and keeps what the process has
    # locked.
    return ("D" if state == "Z" and threads > 1 else state), started


def _from_ps(pid: int) -> tuple[str, str] | None:
    command = ["ps", "-o", "state=,lstart=", "-p", str(pid)]
    text = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    if not text:
        return None
    state, _, started = text.partition(" ")
    return state[0], started.strip()
