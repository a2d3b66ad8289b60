"""The maximal ISR covers every ISR that the controller can have."""

from tidelog.model import TopicId, TopicPartition
from tidelog.replication.isr import Committed, Pending
from tidelog.replication.messages import AlterPartitionProposal, IsrMember


def proposal(*members: int) -> AlterPartitionProposal:
    """A proposal of these members."""
    return AlterPartitionProposal(
        TopicPartition("orders", 0),
        TopicId(bytes(16)),
        0,
        0,
        tuple(IsrMember(member, -1) for member in members),
        False,
    )


def test_committed() -> None:
    """Nothing in flight: one ISR."""
    assert Committed((1, 2)).maximal_isr == (1, 2)


def test_a_newcomer_counts_at_once() -> None:
    """But not as committed."""
    state = Pending((1, 2), proposal(1, 2, 3))
    assert state.isr == (1, 2)
    assert state.maximal_isr == (1, 2, 3)
    assert state.proposed_isr == (1, 2, 3)


def test_a_leaver_counts_until_the_end() -> None:
    """In both ISRs."""
    state = Pending((1, 2, 3), proposal(1, 2))
    assert state.isr == state.maximal_isr == (1, 2, 3)
    assert state.proposed_isr == (1, 2)
