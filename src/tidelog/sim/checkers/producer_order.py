"""ProducerOrder (I22): records are in the order in which their producer sent them.

Values carry the number of their sending, so they must rise per producer and partition. Gaps are
fine: a record may have been lost. An idempotent producer is held to this over all its connections,
a plain one on each connection: what a connection that was given up still carries may land behind
what was sent over the next.
"""

from tidelog.sim.checkers.base import Evidence
from tidelog.sim.evidence.history import Kind
from tidelog.sim.report.violation import Violation


class ProducerOrder:
    """Compares numbers of neighbours."""

    name = "ProducerOrder"

    def at_end(self, evidence: Evidence) -> None:
        """Goes through each partition once."""
        sends = [op for op in evidence.history.ops if op.kind is Kind.SEND]
        connections = {sent.value: op.connection for op in sends for sent in op.sent}
        for key, values in evidence.final.items():
            last: dict[tuple[str, int], int] = {}
            for offset, value in values:
                producer, _, text = value.partition(":")
                sequence = (producer, connections[value])
                if int(text) <= last.get(sequence, 0):
                    raise Violation(
                        self.name,
                        f"{key} {offset}: `{value}` follows `{producer}:{last[sequence]}`",
                    )
                last[sequence] = int(text)
