"""Goal: seeds that run in other processes end when their results are not wanted any more."""

import multiprocessing
import signal
import threading

import pytest

from tidelog.cli.sim import in_processes


def first_or_never(item: int) -> int:
    if item:
        threading.Event().wait()
    return item


def test_an_interruption_does_not_wait_for_what_is_being_computed() -> None:
    results = in_processes(2, first_or_never, [0, 1, 1])
    assert next(results) == 0
    results.close()
    assert multiprocessing.active_children() == []


def test_a_signal_ends_what_is_being_computed() -> None:
    results = in_processes(2, first_or_never, [0, 1, 1])
    assert next(results) == 0
    signal.raise_signal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        next(results)
    assert multiprocessing.active_children() == []
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
