"""A group coordinator: all groups of one partition of `__consumer_offsets`, on its leader.

A group belongs to the partition that the hash of its id names (`rsm/placement.py`), and to the
broker that leads this partition. So the leader election of partitions is that of coordinators too.
How a coordinator loads, decides and resigns is in `rsm/coordinator.py`.

What members of classic groups are doing at the moment is not in the log (`classic_group.py`). A new
coordinator has the members of the last written generation; their sessions begin with its own
activation.

| part | decides |
| --- | --- |
| `joining` | JoinGroup |
| `membership` | SyncGroup, Heartbeat, LeaveGroup |
| `rebalances` | when a generation begins and ends, who is removed |
| `offsets` | OffsetCommit, OffsetFetch, OffsetDelete |
| `expiry` | which offsets are forgotten |
| `consumer_heartbeats` | ConsumerGroupHeartbeat (KIP-848) |
| `classic_members` | what classic members ask of a consumer group |
| `consumer_steps` | what members of consumer groups shall have, and who is removed |
| `migration` | how a group goes from one protocol to the other |
| `share_heartbeats` | ShareGroupHeartbeat: all about share groups (KIP-932) |
| `share_offsets` | AlterShareGroupOffsets, DeleteShareGroupOffsets |
| `queries` | ListGroups, DescribeGroups, ConsumerGroupDescribe, ShareGroupDescribe, DeleteGroups |

Invariants: those of the kernel and the parts; a request gets exactly one answer; a group in memory
is known to the log or has members.

Left out: which broker is asked (`broker/`).

Source: KIP-62, KIP-848 (the cycle); Kafka's group coordinator.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, get_args

from tidelog.config import GroupsConfig
from tidelog.env.instant import Instant, earliest
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace
from tidelog.errors import ErrorCode
from tidelog.groups import messages
from tidelog.groups.classic_group import ClassicGroup
from tidelog.groups.classic_members import ClassicMembers, ClassicRequest
from tidelog.groups.consumer_heartbeats import ConsumerHeartbeats
from tidelog.groups.consumer_steps import ConsumerSteps
from tidelog.groups.env import AssignmentCommitted, Env, GroupsKernel
from tidelog.groups.events import RebalanceReason
from tidelog.groups.expiry import Expiry
from tidelog.groups.group_state import GroupState
from tidelog.groups.image import GroupImage, GroupsImage, GroupsMachine
from tidelog.groups.joining import Joining
from tidelog.groups.membership import Membership
from tidelog.groups.messages import Request, Response
from tidelog.groups.migration import Migration
from tidelog.groups.offsets import Offsets
from tidelog.groups.queries import Queries
from tidelog.groups.rebalances import Rebalances
from tidelog.groups.share_heartbeats import ShareHeartbeats
from tidelog.groups.share_offsets import ShareOffsets
from tidelog.groups.topics import Topics
from tidelog.limits import MAX_GROUP_RECORDS_PER_BATCH
from tidelog.rsm.coordinator import NOT_COORDINATOR, Coordinator, Refused, ReplyTo
from tidelog.rsm.kernel import Kernel, ReplicatedLog
from tidelog.rsm.log_records import LogRecord
from tidelog.rsm.shared_map import SharedMap


class GroupCoordinator(Coordinator[Env, Request, Response]):
    """The groups of one partition."""

    def __init__(
        self,
        *,
        subject: str,
        log: ReplicatedLog[LogRecord],
        config: GroupsConfig,
        prng: Prng,
        trace: Trace,
        topics: Topics,
    ) -> None:
        self._machine = GroupsMachine()
        kernel: GroupsKernel = Kernel(
            self._machine,
            log,
            initial=GroupsImage(),
            max_batch_records=MAX_GROUP_RECORDS_PER_BATCH,
            compacted=True,
        )
        self._kernel = kernel
        env = Env(
            subject=subject, config=config, prng=prng, trace=trace, kernel=kernel, topics=topics
        )
        super().__init__(env)
        self._rebalances = Rebalances(env)
        self._joining = Joining(env, self._rebalances)
        self._membership = Membership(env, self._rebalances)
        self._offsets = Offsets(env)
        self._queries = Queries(env)
        migration = Migration(env, self._rebalances)
        self._steps = ConsumerSteps(env, migration)
        self._consumers = ConsumerHeartbeats(env, self._steps, migration)
        self._classic_members = ClassicMembers(env, self._steps, migration)
        self._shares = ShareHeartbeats(env)
        self._share_offsets = ShareOffsets(env)
        self._expiry = Expiry(env)

    # Views --------------------------------------------------------------------------------

    @property
    def committed(self) -> GroupsImage:
        """What no other leader can take back."""
        return self._kernel.committed

    @property
    def entries(self) -> SharedMap[GroupImage]:
        """All groups of the log."""
        return self._kernel.committed.groups

    @property
    def groups(self) -> Mapping[str, ClassicGroup]:
        """The groups with members, to be looked at and not changed."""
        return self._env.groups

    @property
    def topics(self) -> Topics:
        """What it knows of topics; its owner keeps it up to date."""
        return self._env.topics

    # The log ------------------------------------------------------------------------------

    @property
    def only_last_counts(self) -> bool:
        """Whether of the records of one key the last one is enough."""
        return self._kernel.committed.only_last_counts

    def become_active(self, epoch: int, now: Instant) -> None:
        """Everything before this leadership is loaded: decides from now on. The members that the
        log knows have one session timeout to come back."""
        self._machine.end_loading()
        self._kernel.become_active(epoch)
        self._expiry.start(now)
        self._steps.start(now)
        self._shares.start(now)
        env = self._env
        for group_id, image in env.kernel.committed.groups.items():
            if image.value is None or not image.value.members:
                continue
            group = env.groups[group_id] = ClassicGroup.of(group_id, image.value)
            for member in group.members.values():
                env.begin_session(group, member, now)
            if len(group.members) > env.config.max_size:
                self._rebalances.prepare(group, RebalanceReason.TOO_MANY_MEMBERS, now)

    def resign(self) -> None:
        """Another node leads: all that wait get NOT_COORDINATOR."""
        env = self._env
        self._kernel.resign(NOT_COORDINATOR)
        for group in env.groups.values():
            for member in group.members.values():
                self._rebalances.answer_waiting(member, ErrorCode.NOT_COORDINATOR)
        env.groups.clear()
        self._steps.stop()
        self._shares.stop()
        for reply_to, response in self._kernel.take_replies():
            if not isinstance(reply_to, AssignmentCommitted):
                assert not isinstance(response, AssignmentCommitted), f"{response}"
                env.answer(reply_to, response)

    # Requests -----------------------------------------------------------------------------

    def list_groups(self) -> list[messages.ListedGroup]:
        """All groups, in no particular order."""
        return self._queries.list()

    def on_disconnected(self, group_id: str, member_id: str, now: Instant) -> None:
        """The connection has ended on which a member sent its last request. Its client may be dead,
        and has less time than a silent one (`tidelog.group.disconnect.grace.ms`)."""
        if self.active and self._env.config.disconnect_grace_ms:
            self._membership.on_disconnected(group_id, member_id, now)
            self._steps.on_disconnected(group_id, member_id, now)
            self._shares.on_disconnected(group_id, member_id, now)

    def _decide(self, request: Request, reply_to: ReplyTo, now: Instant) -> None:
        if isinstance(request, ClassicRequest):
            consumers = self._env.consumers(request.group_id)
            if consumers is not None and consumers.subscriptions:
                self._classic_members.decide(request, consumers, reply_to, now)
                return
        refusal = _REFUSED_TO_SHARE_GROUPS.get(type(request))
        group_id = getattr(request, "group_id", "")
        if refusal is not None and self._env.shares(group_id) is not None:
            self._env.answer(reply_to, Refused(refusal))
        else:
            _DECIDERS[type(request)](self, request, reply_to, now)

    def _wake(self, now: Instant) -> None:
        """Ends the sessions and waits that are due."""
        timers = self._env.timers
        while (key := timers.take_due(now)) is not None:
            group_id, member_id = key
            group = self._env.groups.get(group_id)
            if group is None:
                continue
            if not member_id:
                self._rebalances.on_deadline(group, now)
            elif member_id in group.members or member_id in group.pending:
                self._rebalances.on_silent(group, member_id, now)
        self._steps.wake(now)
        self._shares.wake(now)
        self._expiry.wake(now)

    def deadline(self) -> Instant | None:
        """When a session or a wait may be over, or offsets may have expired."""
        if not self.active:
            return None
        return earliest(
            self._env.timers.next(),
            self._expiry.due_at,
            self._steps.sessions.next(),
            self._steps.next_steps.next(),
            self._shares.sessions.next(),
        )

    def _on_committed(
        self, reply_to: Hashable, response: Response | AssignmentCommitted, now: Instant
    ) -> None:
        if isinstance(reply_to, AssignmentCommitted):
            self._rebalances.on_assignment_committed(reply_to, now)
        else:
            assert not isinstance(response, AssignmentCommitted), f"{response}"
            self._env.answer(reply_to, response)

    # Invariants ---------------------------------------------------------------------------

    def check(self) -> None:
        """Asserts the invariants; `env/` of the parts included."""
        self._kernel.check()
        self._env.timers.check()
        self._steps.check()
        self._shares.check()
        for group_id, group in self._env.groups.items():
            assert group_id == group.group_id and not group.is_idle, f"{group_id} is kept"
            group.check()
            image = self._kernel.latest.get(group_id)
            written = None if image is None else image.value
            # A group that goes back to the classic protocol is written with its next generation.
            newest = group.generation_id + (group.state is GroupState.PREPARING)
            assert written is None or written.generation_id <= newest, (
                f"GenerationMonotonic: {group_id} wrote {written.generation_id}, "
                f"has {group.generation_id}"
            )
            self._check_sessions(group)

    def _check_sessions(self, group: ClassicGroup) -> None:
        """A member that waits for nothing is being watched, or it would stay for ever."""
        for member in group.members.values():
            waits = member.join_reply is not None or member.sync_reply is not None
            assert waits or self._env.timers.has((group.group_id, member.member_id)), (
                f"{member.member_id} of {group.group_id} is not watched, {group.state}"
            )
        if group.state is GroupState.PREPARING:
            assert self._env.timers.has((group.group_id, "")), f"{group.group_id} waits for ever"


_REFUSED_TO_SHARE_GROUPS: Final[dict[type, ErrorCode]] = {
    messages.CommitOffsets: ErrorCode.GROUP_ID_NOT_FOUND,
    messages.CommitInTransaction: ErrorCode.GROUP_ID_NOT_FOUND,
}
"""What a group that is a share group gets for requests that are for other groups."""

_DECIDERS: Final[dict[type, Callable[[GroupCoordinator, Any, Hashable, Instant], None]]] = {
    messages.JoinGroup: lambda own, *asked: own._joining.join(*asked),
    messages.SyncGroup: lambda own, *asked: own._membership.sync(*asked),
    messages.Heartbeat: lambda own, *asked: own._membership.heartbeat(*asked),
    messages.LeaveGroup: lambda own, *asked: own._membership.leave(*asked),
    messages.ConsumerGroupHeartbeat: lambda own, *asked: own._consumers.heartbeat(*asked),
    messages.ShareGroupHeartbeat: lambda own, *asked: own._shares.heartbeat(*asked),
    messages.StatesInitialized: lambda own, request, reply_to, _: own._shares.note_states(
        request, reply_to
    ),
    messages.AlterShareOffsets: lambda own, request, reply_to, _: own._share_offsets.alter(
        request, reply_to
    ),
    messages.DeleteShareOffsets: lambda own, request, reply_to, _: own._share_offsets.delete(
        request, reply_to
    ),
    messages.StatesDeleted: lambda own, request, reply_to, _: own._share_offsets.note_deleted(
        request, reply_to
    ),
    messages.CommitOffsets: lambda own, *asked: own._offsets.commit(*asked),
    messages.CommitInTransaction: lambda own, *asked: own._offsets.commit_in_transaction(*asked),
    messages.EndTransaction: lambda own, request, reply_to, _: own._offsets.end_transaction(
        request, reply_to
    ),
    messages.FetchOffsets: lambda own, request, reply_to, _: own._offsets.fetch(request, reply_to),
    messages.DeleteOffsets: lambda own, request, reply_to, _: own._offsets.delete(
        request, reply_to
    ),
    messages.DescribeGroup: lambda own, request, reply_to, _: own._queries.describe(
        request, reply_to
    ),
    messages.DescribeConsumerGroup: lambda own, request, reply_to, _: (
        own._queries.describe_consumers(request, reply_to)
    ),
    messages.DescribeShareGroup: lambda own, request, reply_to, _: own._queries.describe_shares(
        request, reply_to
    ),
    messages.DeleteGroup: lambda own, request, reply_to, _: own._queries.delete(request, reply_to),
}
assert set(_DECIDERS) == set(get_args(Request)), "a request has no decider"
