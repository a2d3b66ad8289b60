"""Partitions that wait for their turn to follow the metadata, the most urgent step first.

A partition stands in the queue once. When newer metadata changes what it needs, it moves to that
step. What is done when its turn comes is decided from the newest image, so nothing is lost by that:
a replica passes over versions that it never needed to know.

Bound: one entry for each partition that this node has or is to have.
"""

from collections import OrderedDict

from tidelog.model import TopicPartition
from tidelog.replication.hosting import Step


class StepQueue:
    """Partitions by the step that they wait for; within a step, in the order of their arrival."""

    __slots__ = ("_by_step", "_step_of")

    def __init__(self) -> None:
        # In the order of urgency. A plain dictionary would be searched from its former start.
        self._by_step: dict[Step, OrderedDict[TopicPartition, None]] = {
            step: OrderedDict() for step in Step
        }
        # The same, by partition.
        self._step_of: dict[TopicPartition, Step] = {}

    def __len__(self) -> int:
        return len(self._step_of)

    def __contains__(self, key: TopicPartition) -> bool:
        return key in self._step_of

    def step_of(self, key: TopicPartition) -> Step | None:
        """What a partition waits for; `None` when it is not in the queue."""
        return self._step_of.get(key)

    def put(self, key: TopicPartition, step: Step | None) -> None:
        """This is what the partition waits for now; `None` for nothing."""
        known = self._step_of.get(key)
        if known is step:
            return
        if known is not None:
            del self._by_step[known][key], self._step_of[key]
        if step is not None:
            self._by_step[step][key] = None
            self._step_of[key] = step

    def take(self) -> tuple[TopicPartition, Step]:
        """Removes and returns the first partition of the most urgent step; there must be one."""
        for step, keys in self._by_step.items():
            if keys:
                key, _ = keys.popitem(last=False)
                del self._step_of[key]
                return key, step
        raise AssertionError("no partition waits")

    def has_any(self, first: Step, last: Step) -> bool:
        """Whether a partition waits for one of these steps."""
        if not self._step_of:
            # Each turn asks several times, and mostly nothing waits.
            return False
        return any(self._by_step[step] for step in Step if first <= step <= last)

    def check(self) -> None:
        """Asserts that each partition waits for one step."""
        waiting = {key: step for step, keys in self._by_step.items() for key in keys}
        assert waiting == self._step_of, f"{waiting} {self._step_of}"
