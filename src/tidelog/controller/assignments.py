"""Who holds a partition, and how that changes while records are being copied.

Theory. A reassignment from the replicas C to a target T takes as long as copying takes, so it is a
state of the partition: T's newcomers are *adding*, C's leavers are *removing*, and the replicas are
T in its order with the leavers behind. No replica is dropped before every replica that is needed is
in sync: the reassignment *completes* within the change of the partition (an ISR that grew, as a
rule) that brings the ISR to

- all the newcomers,
- at least one replica that stays, and all of them where the target is smaller than the origin:
  otherwise dropping replicas could leave fewer copies than were asked for.

Then the leavers are no replicas any more. A reassignment that only reorders is complete at once.
A *cancelled* one goes back to the origin, which is all replicas but the newcomers.

Another target in the midst of a reassignment counts from the same origin: newcomers of the old
target that the new one does not name are dropped at once, unless no other is in sync.

Invariant, asserted where it is applied (`elections.py`): ReassignmentKeepsIsr, a replica that holds
all committed records stays a replica.

Source: KIP-455; Kafka's reassignment rules.
"""

from tidelog.env.frozen import frozen
from tidelog.metadata.image import PartitionImage


@frozen
class Assignment:
    """The replicas of a partition, and which of them come and go."""

    replicas: tuple[int, ...]
    """In order of preference, the leavers included."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def in_progress(self) -> bool:
        """Whether replicas are being added or removed."""
        return bool(self.adding or self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas without the newcomers."""
        return without(self.replicas, self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas without the leavers."""
        return without(self.replicas, self.removing)

    def is_done(self, isr: tuple[int, ...]) -> bool:
        """Whether the leavers may be dropped with this ISR."""
        needed = self.target if len(self.adding) < len(self.removing) else self.adding
        return bool(without(isr, self.removing)) and set(needed) <= set(isr)

    def settled(self, isr: tuple[int, ...]) -> "Assignment":
        """The assignment after an ISR change: the target when that completes it."""
        return Assignment(self.target) if self.in_progress and self.is_done(isr) else self


def assignment_of(partition: PartitionImage) -> Assignment:
    """How the partition is assigned now."""
    return Assignment(partition.replicas, partition.adding_replicas, partition.removing_replicas)


def reassigned(partition: PartitionImage, target: tuple[int, ...]) -> Assignment:
    """On the way from the partition's origin to `target`."""
    now = assignment_of(partition)
    origin = now.origin
    if not set(partition.isr) & {*origin, *target}:
        # Only newcomers that are not wanted any more are in sync: they stay until others are.
        origin = now.replicas
    removing = without(origin, target)
    return Assignment((*target, *removing), without(target, now.origin), removing)


def without(replicas: tuple[int, ...], others: tuple[int, ...]) -> tuple[int, ...]:
    """The replicas that are not among the others."""
    return tuple(replica for replica in replicas if replica not in others)
