"""A group with members goes from one protocol to the other, and back (KIP-848, online migration).

| the group | what comes | what it becomes |
| --- | --- | --- |
| classic, of consumers | a member of the consumer protocol | a consumer group with all members |
| consumer | the last member that speaks it goes | a classic group, which rebalances |
| consumer | a classic process takes the place of that member (static) | a classic group |

In between, members of both protocols are in one consumer group (`classic_members.py`). A member
keeps its id and what it has: on the way up the assignments of the last generation are targets and
possessions at once, on the way down the targets are the assignments. Generation and group epoch go
on as one number, so a member of either kind is distinguished from what was before.

`group.consumer.migration.policy` says which ways are open: `bidirectional`, `upgrade`, `downgrade`,
`disabled`.

Members of a group that has gone back rebalance, to share what the last one had.

Invariant
- All of it is one batch: no coordinator finds a group half migrated.

Source: KIP-848; Kafka's group coordinator.
"""

from collections.abc import Collection
from typing import Final

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode, MalformedFrame, ProtocolError
from tidelog.groups.classic_group import ClassicGroup, Member
from tidelog.groups.consumer_draft import Draft
from tidelog.groups.consumer_group import ConsumerGroup
from tidelog.groups.consumer_records import (
    ClassicMember,
    Current,
    GroupEpoch,
    IdPartition,
    Kind,
    MemberState,
    Owned,
    Subscription,
    TargetEpoch,
    Value,
)
from tidelog.groups.env import Env
from tidelog.groups.events import RebalanceReason
from tidelog.groups.group_state import GroupState
from tidelog.groups.messages import GroupProtocol
from tidelog.groups.rebalances import Rebalances
from tidelog.groups.records import GroupRecord
from tidelog.model import TopicPartition
from tidelog.wire.consumer_protocol import (
    CONSUMERS,
    assignment_of,
    pack_assignment,
    subscription_of,
)

DISABLED: Final = "disabled"
_UPGRADES: Final = ("bidirectional", "upgrade")
_DOWNGRADES: Final = ("bidirectional", "downgrade")


class Migration:
    """The migrations of the groups of one coordinator."""

    __slots__ = ("_env", "_rebalances")

    def __init__(self, env: Env, rebalances: Rebalances) -> None:
        self._env = env
        self._rebalances = rebalances

    # To the consumer protocol -------------------------------------------------------------

    def upgrade(self, draft: Draft, classic: ClassicGroup) -> None:
        """Makes the empty draft the consumer group that has the members of this one. Raises
        `ProtocolError`."""
        config = self._env.config
        group_id, generation = classic.group_id, classic.generation_id
        if config.migration_policy.lower() not in _UPGRADES:
            raise _cannot(group_id, "upgrades are disabled")
        if classic.protocol_type != CONSUMERS:
            raise _cannot(group_id, "its members are not consumers")
        if len(classic.members) > config.consumer_max_size:
            raise _cannot(group_id, "it has more members than a consumer group may have")
        changes: list[tuple[Kind, str, Value | None]] = []
        taken: set[IdPartition] = set()
        for member in classic.members.values():
            try:
                subscription, owned = self._converted(member, classic)
            except MalformedFrame as error:
                raise _cannot(group_id, f"a member is not understood: {error}") from None
            if not taken.isdisjoint(owned):
                raise _cannot(group_id, "two members have the same partition")
            taken.update(owned)
            current = Current(generation, generation, MemberState.STABLE, owned)
            changes += [
                (Kind.SUBSCRIPTION, member.member_id, subscription),
                (Kind.TARGET, member.member_id, tuple(owned)),
                (Kind.CURRENT, member.member_id, current),
            ]
        draft.records.append(GroupRecord(group_id, None))
        draft.write(*changes)
        metadata_hash = self._env.topics.hash_of(draft.group.topics())
        draft.write(
            (Kind.EPOCH, "", GroupEpoch(generation, metadata_hash)),
            (Kind.TARGET_EPOCH, "", TargetEpoch(generation)),
        )
        draft.former = classic

    def _converted(self, member: Member, classic: ClassicGroup) -> tuple[Subscription, Owned]:
        """A member, and what it has. Raises `MalformedFrame`."""
        protocols = tuple((each.name, each.metadata) for each in member.protocols)
        metadata = member.metadata(classic.protocol_name) or protocols[0][1]
        said = subscription_of(metadata)
        given = assignment_of(member.assignment)
        if given.user_data:
            raise MalformedFrame("its assignor is not one of Kafka's")
        ids = [(self._env.topics.id_of(tp.topic), tp.partition) for tp in given.partitions]
        owned = sorted(IdPartition(topic_id, number) for topic_id, number in ids if topic_id)
        subscription = Subscription(
            member.group_instance_id,
            said.rack,
            member.client_id,
            member.client_host,
            tuple(sorted(set(said.topics))),
            None,
            member.rebalance_timeout_ms,
            None,
            ClassicMember(member.session_timeout_ms, protocols),
        )
        return subscription, dict.fromkeys(owned, classic.generation_id)

    def on_upgraded(self, classic: ClassicGroup) -> None:
        """The records are in the log: members that wait for a generation are to join again."""
        for member in classic.members.values():
            self._rebalances.answer_waiting(member, ErrorCode.REBALANCE_IN_PROGRESS)
        self._env.forget(classic)

    # To the classic protocol --------------------------------------------------------------

    def may_downgrade(self, group: ConsumerGroup, leaving: Collection[str]) -> bool:
        """Whether the group goes back to the classic protocol when these members leave."""
        config = self._env.config
        return (
            config.migration_policy.lower() in _DOWNGRADES
            and group.is_classic_without(leaving)
            and len(group.subscriptions) - len(leaving) <= config.max_size
        )

    def downgrade(
        self, draft: Draft, before: ConsumerGroup, reason: RebalanceReason | None, now: Instant
    ) -> None:
        """Ends the consumer group of the draft, whose members are a classic one from then on, with
        the generation and the assignments that it had before. With a reason it rebalances."""
        group = draft.group
        classic = ClassicGroup(draft.group_id, GroupState.STABLE, before.group_epoch, CONSUMERS)
        assignments = {}
        for member_id, each in group.subscriptions.items():
            assert each.classic is not None, f"{member_id} does not speak the classic protocol"
            protocols = tuple(GroupProtocol(*protocol) for protocol in each.classic.protocols)
            assignments[member_id] = self.packed(each.classic, before.target(member_id))
            classic.add(
                Member(
                    member_id=member_id,
                    group_instance_id=each.instance_id,
                    client_id=each.client_id,
                    client_host=each.client_host,
                    session_timeout_ms=each.classic.session_timeout_ms,
                    rebalance_timeout_ms=each.rebalance_timeout_ms,
                    protocols=protocols,
                    assignment=assignments[member_id],
                    is_new=False,
                )
            )
        classic.choose(classic.vote())
        classic.leader_id = next(iter(classic.members))
        draft.end()
        value = classic.value(assignments, self._env.wall_ms(now))
        if reason is not None:
            # The rebalance is not in the log. A new coordinator refuses the members' generation, so
            # that they join again; else no member would get what the last one had.
            value = value._replace(generation_id=classic.generation_id + 1)
        draft.records.append(GroupRecord(draft.group_id, value))
        draft.successor = classic, reason

    def on_downgraded(
        self, classic: ClassicGroup, reason: RebalanceReason | None, now: Instant
    ) -> None:
        """The records are in the log: the classic group lives."""
        self._env.keep(classic)
        for member in classic.members.values():
            self._env.begin_session(classic, member, now)
        if reason is not None:
            self._rebalances.prepare(classic, reason, now)

    def packed(self, member: ClassicMember, partitions: Collection[IdPartition]) -> bytes:
        """An assignment as the member understands it."""
        version = subscription_of(member.protocols[0][1]).version
        names = [(self._env.topics.name_of(each.topic_id), each.partition) for each in partitions]
        return pack_assignment(version, [TopicPartition(name, at) for name, at in names if name])


def _cannot(group_id: str, why: str) -> ProtocolError:
    text = f"Group {group_id} is not a consumer group and cannot become one: {why}."
    return ProtocolError(ErrorCode.GROUP_ID_NOT_FOUND, text)
