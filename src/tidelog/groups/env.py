"""What the parts of one group coordinator share, over that of all (`rsm/coordinator.py`): its
groups and their deadlines.

An answer about what members do at the moment leaves at once (`answer`). An answer that reports
something as done waits until the record of it is committed (`append`).
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.config import GroupsConfig
from tidelog.config.group_properties import (
    heartbeat_interval_ms,
    session_timeout_ms,
    share_heartbeat_interval_ms,
    share_session_timeout_ms,
)
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.groups.classic_group import ClassicGroup, Member
from tidelog.groups.consumer_group import ConsumerGroup
from tidelog.groups.events import MemberDisconnected
from tidelog.groups.group_state import GroupState
from tidelog.groups.image import GroupsImage, GroupsLogRecord
from tidelog.groups.messages import Response
from tidelog.groups.share_group import ShareGroup
from tidelog.groups.topics import Topics
from tidelog.rsm.coordinator import CoordinatorEnv, Refused, ReplyTo
from tidelog.rsm.kernel import Kernel
from tidelog.rsm.log_records import LogRecord
from tidelog.rsm.timers import Timers


class AssignmentCommitted(NamedTuple):
    """In place of a request: the assignment of a generation is in the log."""

    group_id: str
    generation_id: int
    assignments: tuple[tuple[str, bytes], ...]


GroupsKernel = Kernel[GroupsImage, GroupsLogRecord, LogRecord, Response | AssignmentCommitted]


@dataclass(eq=False, kw_only=True)
class Env(CoordinatorEnv[GroupsImage, GroupsLogRecord, Response | AssignmentCommitted]):
    """The surroundings of the parts of one coordinator."""

    # The partition that the coordinator lives on, for log lines.
    subject: str
    config: GroupsConfig
    prng: Prng
    topics: Topics
    # Groups with members, or with member ids that were given out; empty unless active.
    groups: dict[str, ClassicGroup] = field(default_factory=dict)
    # By group, and the member whose deadline it is; without one the group's own.
    timers: Timers[tuple[str, str]] = field(default_factory=Timers)

    def append(
        self,
        records: Sequence[GroupsLogRecord],
        response: Response | AssignmentCommitted | None = None,
        reply_to: Hashable | None = None,
    ) -> ErrorCode:
        """As that of all coordinators; nothing is written while too many wait for replicas."""
        if not self.is_deposed and not self.kernel.has_room:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return super().append(records, response, reply_to)

    def note(self, record: GroupsLogRecord) -> None:
        """Writes what has happened already, also while too many wait for replicas: it waits for
        nothing. Not written means not led here any more."""
        super().append([record])

    def write(
        self, records: Sequence[GroupsLogRecord], response: Response, reply_to: ReplyTo
    ) -> ErrorCode:
        """As `append`; an error is the answer."""
        code = self.append(records, response, reply_to)
        if code is not ErrorCode.NONE:
            self.answer(reply_to, Refused(code))
        return code

    # Groups -------------------------------------------------------------------------------

    def find(self, group_id: str) -> ClassicGroup | None:
        """A group, if it exists and is a classic one."""
        group = self.groups.get(group_id)
        if group is None:
            image = self.kernel.latest.get(group_id)
            if image is not None and image.consumer is None and image.shares is None:
                group = ClassicGroup.of(group_id, image.value)
        return group

    def consumers(self, group_id: str) -> ConsumerGroup | None:
        """A group, if it exists and is a consumer group."""
        image = self.kernel.latest.get(group_id)
        return None if image is None else image.consumer

    def shares(self, group_id: str) -> ShareGroup | None:
        """A group, if it exists and is a share group."""
        image = self.kernel.latest.get(group_id)
        return None if image is None else image.shares

    def topics_read_by(self, group_id: str) -> frozenset[str] | None:
        """What the members of a classic or consumer group are subscribed to; `None` when that is
        not known."""
        group, consumers = self.find(group_id), self.consumers(group_id)
        if consumers is not None:
            return frozenset(consumers.topics())
        return frozenset() if group is None or group.state is GroupState.EMPTY else group.topics

    def session_timeout_ms(self, group_id: str) -> int:
        """Of the members of a consumer group."""
        return session_timeout_ms(self.config, self.topics.configs_of_group(group_id))

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """Of the members of a consumer group."""
        return heartbeat_interval_ms(self.config, self.topics.configs_of_group(group_id))

    def hasten(
        self, sessions: Timers[tuple[str, str]], key: tuple[str, str], timeout_ms: int, now: Instant
    ) -> None:
        """The client of a member has lost its connection. Clients send a heartbeat at least three
        times in a session: one that is alive connects again by then."""
        within_ms = timeout_ms // 3 + self.config.disconnect_grace_ms
        if sessions.hasten(key, Instant(now + within_ms)):
            group_id, member_id = key
            event = MemberDisconnected(group_id=group_id, member_id=member_id, within_ms=within_ms)
            self.trace.event(event)

    def share_session_timeout_ms(self, group_id: str) -> int:
        """Of the members of a share group."""
        return share_session_timeout_ms(self.config, self.topics.configs_of_group(group_id))

    def share_heartbeat_interval_ms(self, group_id: str) -> int:
        """Of the members of a share group."""
        return share_heartbeat_interval_ms(self.config, self.topics.configs_of_group(group_id))

    def forget(self, group: ClassicGroup) -> None:
        """It is not a classic group any longer: no member is watched, and member ids that were
        given out are withdrawn."""
        for member_id in ("", *group.pending, *group.members):
            self.timers.clear((group.group_id, member_id))
        self.groups.pop(group.group_id, None)

    def keep(self, group: ClassicGroup) -> None:
        """Remembers a group as long as the log does not know everything of it."""
        if group.is_idle:
            self.groups.pop(group.group_id, None)
            self.timers.clear((group.group_id, ""))
        else:
            self.groups[group.group_id] = group

    def begin_session(self, group: ClassicGroup, member: Member, now: Instant) -> None:
        """The member is alive, and is taken for dead when it is silent for its timeout."""
        deadline = Instant(now + member.session_timeout_ms)
        self.timers.set((group.group_id, member.member_id), deadline)
