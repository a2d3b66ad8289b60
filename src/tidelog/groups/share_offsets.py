"""What administrators do to the offsets of a share group: move them, and forget those of a topic.

The offsets are at the share coordinators. Here is noted first what they are asked, and then what
they have answered; a group with members is refused (NON_EMPTY_GROUP), because its members would go
on with what they have.

Source: KIP-932; Kafka's group coordinator.
"""

from tidelog.errors import ErrorCode
from tidelog.groups.env import Env
from tidelog.groups.messages import (
    AlterShareOffsets,
    DeleteShareOffsets,
    ShareOffsetsResult,
    StatesDeleted,
    StatesResult,
    WantedStates,
)
from tidelog.groups.share_group import EMPTY, ShareGroup
from tidelog.groups.share_records import ShareGroupRecord, ShareKind, ShareStates
from tidelog.groups.share_states import deleted, deleting, initializing, named_states, with_states
from tidelog.model import NO_OFFSET
from tidelog.rsm.coordinator import ReplyTo


class ShareOffsets:
    """The offsets of one coordinator's share groups."""

    __slots__ = ("_env",)

    def __init__(self, env: Env) -> None:
        self._env = env

    def alter(self, request: AlterShareOffsets, reply_to: ReplyTo) -> None:
        """A group that does not exist is made if a topic exists, with or without the partitions.
        The answer says what is to be initialised."""
        env, group_id = self._env, request.group_id
        group = env.shares(group_id)
        if group is None and (env.find(group_id) or env.consumers(group_id)) is not None:
            env.answer(reply_to, _other_type(group_id))
            return
        if group is not None and group.members:
            env.answer(reply_to, ShareOffsetsResult(ErrorCode.NON_EMPTY_GROUP))
            return
        known = group or EMPTY
        asked = named_states((each for each, _ in request.partitions), env.topics)
        states = initializing(known.known_states, asked, env.topics)
        wanted = WantedStates(group_id, known.group_epoch, request.partitions)
        records = [ShareGroupRecord(ShareKind.STATES, group_id, "", states)]
        must_exist = group is None and request.knows_topics
        is_same = not must_exist and states == known.known_states
        env.write([] if is_same else records, ShareOffsetsResult(wanted=wanted), reply_to)

    def delete(self, request: DeleteShareOffsets, reply_to: ReplyTo) -> None:
        """The answer says what is to be deleted; nothing of topics that the group does not know."""
        env, group_id = self._env, request.group_id
        group = env.shares(group_id)
        if group is None:
            env.answer(reply_to, _other_type(group_id))
            return
        if group.members:
            env.answer(reply_to, ShareOffsetsResult(ErrorCode.NON_EMPTY_GROUP))
            return
        states = deleting(group.known_states, request.topics)
        partitions = tuple(
            (each, NO_OFFSET)
            for each in with_states(group.known_states, env.topics)
            if each.topic_id in request.topics and each.topic_id in states.deleting
        )
        wanted = WantedStates(group_id, group.group_epoch, partitions)
        self._write(group_id, group, states, ShareOffsetsResult(wanted=wanted), reply_to)

    def note_deleted(self, request: StatesDeleted, reply_to: ReplyTo) -> None:
        """The share coordinators know nothing of these topics any more."""
        group = self._env.shares(request.group_id)
        if group is None:
            self._env.answer(reply_to, StatesResult(ErrorCode.GROUP_ID_NOT_FOUND))
            return
        after = deleted(group.known_states, request.topics)
        self._write(request.group_id, group, after, StatesResult(), reply_to)

    def _write(
        self,
        group_id: str,
        group: ShareGroup,
        after: ShareStates,
        result: ShareOffsetsResult | StatesResult,
        reply_to: ReplyTo,
    ) -> None:
        records = [ShareGroupRecord(ShareKind.STATES, group_id, "", after)]
        self._env.write(records if after != group.known_states else [], result, reply_to)


def _other_type(group_id: str) -> ShareOffsetsResult:
    text = f"Group {group_id} is not a share group."
    return ShareOffsetsResult(ErrorCode.GROUP_ID_NOT_FOUND, text)
