"""The states and types of groups, in the words of Kafka's protocol."""

from enum import Enum


class GroupState(Enum):
    """Where a group is in its cycle, in the words of DescribeGroups."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    ASSIGNING = "Assigning"
    """A consumer group whose target assignment is to be made anew."""
    RECONCILING = "Reconciling"
    """A consumer group with members on their way to their targets."""
    STABLE = "Stable"
    DEAD = "Dead"
    """It does not exist."""


class GroupType(Enum):
    """How the members of a group agree."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    """KIP-848."""
    SHARE = "share"
    """KIP-932."""
