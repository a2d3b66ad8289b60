"""The fewest steps that still show a difference.

Steps refer to each other by number, so any subset of a sequence is a sequence: a reference to a
step that is gone gives what it gives when the step had failed.
"""

from collections.abc import Callable, Sequence

from tests.differential.steps import Step


def shrink(
    steps: Sequence[Step], shows: Callable[[Sequence[Step]], bool], tries: int
) -> Sequence[Step]:
    """Leaves out steps, halves first, then ever smaller pieces, while `shows` holds; asks it at
    most so many times. The last step, which shows the difference, always stays."""
    size = max(1, (len(steps) - 1) // 2)
    while tries > 0:
        start, left_out = 0, False
        while start < len(steps) - 1 and tries > 0:
            end = min(start + size, len(steps) - 1)
            fewer = [*steps[:start], *steps[end:]]
            tries -= 1
            if shows(fewer):
                steps, left_out = fewer, True
            else:
                start = end
        if size == 1 and not left_out:
            break
        size = max(1, size // 2)
    return steps
