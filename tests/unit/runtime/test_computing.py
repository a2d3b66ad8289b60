"""Goal: what is called beside the loop is called in order, one at a time; a bug is reported."""

import threading
from queue import Queue

from tests.unit.runtime.harness import TIMEOUT_S
from tidelog.env.effects import Compute, Computed
from tidelog.runtime.computing import Computing


def test_effects_are_answered_in_order_from_one_thread() -> None:
    answers: Queue[Computed] = Queue()
    computing = Computing(answer=answers.put, fail=answers.put)  # type: ignore[arg-type]
    gate = threading.Event()
    computing.submit(Compute(lambda: gate.wait(TIMEOUT_S), "first"))
    for subject in range(3):
        computing.submit(Compute(threading.get_ident, subject))
    assert answers.empty()
    gate.set()
    found = [answers.get(timeout=TIMEOUT_S) for _ in range(4)]
    assert [each.subject for each in found] == ["first", 0, 1, 2]
    threads = {each.result for each in found[1:]}
    assert len(threads) == 1 and threading.get_ident() not in threads


def test_a_bug_is_reported() -> None:
    failures: Queue[BaseException] = Queue()
    computing = Computing(answer=lambda _: None, fail=failures.put)
    computing.submit(Compute(lambda: 1 // 0, "bug"))
    assert isinstance(failures.get(timeout=TIMEOUT_S), ZeroDivisionError)
