"""The in-sync replicas of one partition as its leader sees them: committed, or about to change.

The controller owns the ISR. A leader proposes a change, and until the answer is in it must be
ready for both outcomes:

- **An expansion in flight counts the newcomer at once** in the maximal ISR: the controller may
  already have committed it, and may elect it.
- **A shrink in flight counts no member out**: the controller may still refuse it, and members that
  would leave may still be elected.

So the *maximal ISR* is a superset of every ISR that the controller can have at that moment
(`MaximalIsrSuperset`), and the high watermark waits for all of it. The committed ISR is what the
min ISR is measured against before an append and what elections use.

The states are a sum type, so that "two changes in flight" cannot be written down.

Source: KIP-497 (AlterPartition), KIP-966 (strict min ISR).
"""

from tidelog.env.frozen import frozen
from tidelog.replication.messages import AlterPartitionProposal


@frozen
class Committed:
    """Nothing in flight."""

    isr: tuple[int, ...]
    """In the controller's order; the leader is among them."""

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The same as the committed ISR."""
        return self.isr


@frozen
class Pending:
    """One replica is proposed to join, or some to leave."""

    isr: tuple[int, ...]
    """The committed ISR, which counts again when the controller refuses."""
    proposal: AlterPartitionProposal
    """Answers to any other proposal are stale."""

    @property
    def proposed_isr(self) -> tuple[int, ...]:
        """What the ISR will be if the controller agrees."""
        return tuple(member.broker_id for member in self.proposal.new_isr)

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The committed ISR, members that may leave included, and the newcomer."""
        return (*self.isr, *(member for member in self.proposed_isr if member not in self.isr))


IsrState = Committed | Pending
