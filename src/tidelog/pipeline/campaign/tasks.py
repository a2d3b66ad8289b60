"""Which seeds a campaign has yet to run, and how they are divided into tasks.

A task costs Spark some 50 ms, so it gets many seeds. But seeds differ in length by a factor of ten,
and a long task at the end leaves the other cores idle. So tasks become smaller towards the end
(guided self-scheduling, Polychronopoulos and Kuck, 1987): each takes half of the share that every
core would get of the seeds left, down to a single seed. Spark begins tasks in their order.
"""

import math
from collections.abc import Iterable, Sequence

from tidelog.pipeline.campaign.runs import Run
from tidelog.pipeline.campaign.seeds import CLEAN, VIOLATION


def unfinished(wanted: range, runs: Iterable[Run]) -> list[int]:
    """The wanted seeds, ascending, that have no run with a final verdict. Crashes and time-outs
    are not final: the machine may have been the cause, so the seed runs again."""
    finished = {run["seed"] for run in runs if run["verdict"] in (CLEAN, VIOLATION)}
    return [seed for seed in wanted if seed not in finished]


def plan_tasks(seeds: Sequence[int], seeds_per_task: int, cores: int) -> list[Sequence[int]]:
    """The seeds of each task, in order: from one to `seeds_per_task` of them."""
    tasks = []
    begin = 0
    while begin < len(seeds):
        share = math.ceil((len(seeds) - begin) / (2 * cores))
        end = begin + min(share, seeds_per_task)
        tasks.append(seeds[begin:end])
        begin = end
    return tasks
