"""ProducerOrder (I22): an idempotent producer's records are in the order in which it sent them.

Values carry the number of their sending, so per producer and partition they must rise. It holds for
all producers of the workload: those without sequences send one batch after the other on one
connection, but may have lost some, so gaps are fine.
"""

from tidelog.sim.checkers.base import Evidence
from tidelog.sim.report.violation import Violation


class ProducerOrder:
    """Compares numbers of neighbours."""

    name = "ProducerOrder"

    def __init__(self, producers: frozenset[str]) -> None:
        # The idempotent ones.
        self._producers = producers

    def at_end(self, evidence: Evidence) -> None:
        """Goes through each partition once."""
        for key, values in evidence.final.items():
            last: dict[str, int] = {}
            for offset, value in values:
                producer, _, text = value.partition(":")
                number = int(text)
                if producer in self._producers and number <= last.get(producer, 0):
                    raise Violation(
                        self.name,
                        f"{key} {offset}: `{value}` follows `{producer}:{last[producer]}`",
                    )
                last[producer] = number
