"""Goal: what is called beside the loop is called in order, one at a time; a bug is reported."""

import threading
import time
from queue import Queue

from tests.unit.runtime.harness import TIMEOUT_S
from tidelog.env.effects import Compute, Computed, Rest
from tidelog.runtime.computing import SLICE_NS, Computing


def test_effects_are_answered_in_order_from_one_thread() -> None:
    answers: Queue[Computed] = Queue()
    computing = Computing(answer=answers.put, fail=answers.put)  # type: ignore[arg-type]
    gate = threading.Event()
    computing.submit(Compute(lambda _: gate.wait(TIMEOUT_S), "first"))
    for subject in range(3):
        computing.submit(Compute(lambda _: threading.get_ident(), subject))
    assert answers.empty()
    gate.set()
    found = [answers.get(timeout=TIMEOUT_S) for _ in range(4)]
    assert [each.subject for each in found] == ["first", 0, 1, 2]
    threads = {each.result for each in found[1:]}
    assert len(threads) == 1 and threading.get_ident() not in threads


def test_an_answer_has_the_time_that_it_took() -> None:
    answers: Queue[Computed] = Queue()
    computing = Computing(answer=answers.put, fail=answers.put)  # type: ignore[arg-type]

    def took_ns(_: Rest) -> int:
        begun_ns = time.monotonic_ns()
        sum(range(1000))
        return time.monotonic_ns() - begun_ns

    computing.submit(Compute(took_ns, "sum"))
    found = answers.get(timeout=TIMEOUT_S)
    assert isinstance(found.result, int) and found.spent_ns >= found.result > 0


def test_a_bug_is_reported() -> None:
    failures: Queue[BaseException] = Queue()
    computing = Computing(answer=lambda _: None, fail=failures.put)
    computing.submit(Compute(lambda _: 1 // 0, "bug"))
    assert isinstance(failures.get(timeout=TIMEOUT_S), ZeroDivisionError)


def test_a_function_that_takes_long_rests_and_its_rests_do_not_count() -> None:
    """Goal: others get the interpreter now and then, and the client pays for work alone."""
    answers: Queue[Computed] = Queue()
    computing = Computing(answer=answers.put, fail=answers.put)  # type: ignore[arg-type]

    def work(rest: Rest) -> tuple[int, int]:
        begun_ns = time.monotonic_ns()
        while True:
            before_ns = time.monotonic_ns()
            rest()
            ended_ns = time.monotonic_ns()
            # A sleep takes no less than was asked for, and a slice is asked for at least.
            if ended_ns - before_ns >= SLICE_NS:
                return ended_ns - begun_ns, ended_ns - before_ns

    computing.submit(Compute(work, "work"))
    found = answers.get(timeout=TIMEOUT_S)
    took_ns, rested_ns = found.result  # type: ignore[misc]
    assert found.spent_ns >= SLICE_NS
    assert rested_ns >= SLICE_NS and took_ns >= 2 * SLICE_NS
