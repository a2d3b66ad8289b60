"""Which seeds a campaign has yet to play, and how they are dealt out to tasks.

A task costs Spark some 50 ms, so it gets many seeds. But seeds differ in length by a factor of ten,
and whoever gets the last long task keeps all others waiting. So tasks become smaller towards the
end (guided self-scheduling, Polychronopoulos and Kuck, 1987): each takes a share of what is left,
half of what every core would get, down to a single seed. Spark begins tasks in their order.
"""

import math
from collections.abc import Iterable, Sequence

from tidelog.pipeline.campaign.runs import Run
from tidelog.pipeline.campaign.seeds import CLEAN, VIOLATION


def unfinished(wanted: range, runs: Iterable[Run]) -> list[int]:
    """The wanted seeds, ascending, for which no run has a verdict that the seed alone decides:
    crashes and time-outs are played again, the machine may have been at fault."""
    finished = {run["seed"] for run in runs if run["verdict"] in (CLEAN, VIOLATION)}
    return [seed for seed in wanted if seed not in finished]


def deal(seeds: Sequence[int], seeds_per_task: int, cores: int) -> list[Sequence[int]]:
    """The seeds of each task, in order: never more than `seeds_per_task`, never none."""
    tasks = []
    begin = 0
    while begin < len(seeds):
        share = math.ceil((len(seeds) - begin) / (2 * cores))
        end = begin + min(share, seeds_per_task)
        tasks.append(seeds[begin:end])
        begin = end
    return tasks
