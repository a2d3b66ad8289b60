"""How a member of a consumer group comes from what it has to what it shall have.

    STABLE ──target moved──> UNREVOKED ──gave them back──> UNRELEASED ──others did too──> STABLE
                                 (keeps its epoch)          (has the new epoch already)

1. What it has and shall not have is taken away first. The member keeps its epoch until it no longer
   names these partitions as its own.
2. Then it gets the new epoch, and of the target what no other member has.
3. The rest comes as soon as others give it back: with each heartbeat it is looked for anew.

Partitions of topics that a member has unsubscribed from are taken away at once, also in the same
epoch. Nothing here waits or writes: `reconciled` is a function of what is there.

Source: KIP-848; KIP-1251 (each partition remembers in which epoch the member got it).
"""

from collections.abc import Collection, Mapping

from tidelog.errors import ErrorCode, ProtocolError
from tidelog.groups.consumer_records import Current, IdPartition, MemberState, Owned, Target
from tidelog.model import TopicId


class Goal:
    """What a member shall have, and what stands against it."""

    __slots__ = ("epoch", "owners", "subscribed", "target")

    def __init__(
        self,
        epoch: int,
        target: Target,
        subscribed: Collection[TopicId],
        owners: Mapping[IdPartition, str],
    ) -> None:
        # The assignment epoch.
        self.epoch = epoch
        # What is left of the target after changes of the subscription since.
        self.target = frozenset(each for each in target if each.topic_id in subscribed)
        # The topics that the member wants at the moment.
        self.subscribed = subscribed
        # Who has each partition of the group, the member itself included.
        self.owners = owners


def reconciled(
    current: Current, goal: Goal, held: Collection[IdPartition] | None, *, unsubscribed: bool
) -> Current:
    """What the member has after this heartbeat. `held` is what it says it uses, `None` when it does
    not say; `unsubscribed` says that its subscription has changed. Raises `ProtocolError`."""
    match current.state:
        case MemberState.STABLE if current.epoch == goal.epoch:
            return _without_unsubscribed(current, goal, held) if unsubscribed else current
        case MemberState.UNREVOKED if _holds(held, current.revoking):
            return _without_unsubscribed(current, goal, held) if unsubscribed else current
        case MemberState.UNKNOWN:
            if held is None or held:
                text = "The member is in an unknown state, and must give up its partitions."
                raise ProtocolError(ErrorCode.FENCED_MEMBER_EPOCH, text)
            return _next(current, goal, held, goal.epoch)
    return _next(current, goal, held, current.epoch)


def _holds(held: Collection[IdPartition] | None, partitions: Owned) -> bool:
    """Whether the member may still use some of these."""
    return held is None or any(each in partitions for each in held)


def _next(
    current: Current, goal: Goal, held: Collection[IdPartition] | None, epoch: int
) -> Current:
    kept = {each: at for each, at in current.assigned.items() if each in goal.target}
    surplus = {each: at for each, at in current.assigned.items() if each not in goal.target}
    if surplus and _holds(held, surplus):
        return _at(current, epoch, MemberState.UNREVOKED, kept, surplus)
    missing = sorted(goal.target - kept.keys())
    # What it has just given back is free, and so is what no member has.
    free = [each for each in missing if each not in goal.owners or each in current.revoking]
    assigned = kept | dict.fromkeys(free, goal.epoch)
    state = MemberState.STABLE if len(free) == len(missing) else MemberState.UNRELEASED
    return _at(current, goal.epoch, state, dict(sorted(assigned.items())), {})


def _without_unsubscribed(
    current: Current, goal: Goal, held: Collection[IdPartition] | None
) -> Current:
    """Takes topics away that the member does not want any more, whatever its target says."""
    gone = {at: by for at, by in current.assigned.items() if at.topic_id not in goal.subscribed}
    if not gone:
        return current
    kept = {each: at for each, at in current.assigned.items() if each not in gone}
    revoking = dict(sorted((dict(current.revoking) | gone).items()))
    if _holds(held, revoking):
        return _at(current, current.epoch, MemberState.UNREVOKED, kept, revoking)
    return _at(current, current.epoch, current.state, kept, current.revoking)


def _at(
    current: Current, epoch: int, state: MemberState, assigned: Owned, revoking: Owned
) -> Current:
    """The next step; the epoch that the member leaves is remembered."""
    previous = current.epoch if epoch != current.epoch else current.previous_epoch
    return Current(epoch, previous, state, assigned, revoking)
