"""What administrators ask about groups, and how they delete them.

Descriptions are of the moment, members included. A group is deleted when it has no members: its
offsets and its record get tombstones in one batch. Member ids that were given out are withdrawn.

Source: KIP-222, KIP-229, KIP-518, KIP-1043.
"""

from typing import Final

from tidelog.errors import ErrorCode
from tidelog.groups.classic_group import ClassicGroup
from tidelog.groups.consumer_group import ConsumerGroup
from tidelog.groups.env import Env
from tidelog.groups.group_state import GroupState, GroupType
from tidelog.groups.image import GroupImage
from tidelog.groups.messages import (
    DeleteGroup,
    DeleteGroupResult,
    DescribeConsumerGroup,
    DescribeConsumerGroupResult,
    DescribedMember,
    DescribeGroup,
    DescribeGroupResult,
    DescribeShareGroup,
    DescribeShareGroupResult,
    ListedGroup,
    WantedStates,
)
from tidelog.groups.records import GroupRecord, GroupsRecord, OffsetRecord
from tidelog.groups.share_group import ShareGroup
from tidelog.groups.share_records import ShareGroupRecord, ShareKind
from tidelog.groups.share_states import all_deleting, with_states
from tidelog.model import NO_OFFSET
from tidelog.rsm.coordinator import ReplyTo
from tidelog.wire.consumer_protocol import CONSUMERS

SHARES: Final = "share"
"""The protocol type of share groups."""


class Queries:
    """Answers administrators about the groups of one coordinator."""

    __slots__ = ("_env",)

    def __init__(self, env: Env) -> None:
        self._env = env

    def list(self) -> list[ListedGroup]:
        """All groups."""
        env = self._env
        found = {
            group_id: _listed(group_id, image)
            for group_id, image in env.kernel.committed.groups.items()
        }
        for group in env.groups.values():
            found[group.group_id] = ListedGroup(
                group.group_id, group.protocol_type or "", group.state
            )
        return list(found.values())

    def describe(self, request: DescribeGroup, reply_to: ReplyTo) -> None:
        """Answers at once."""
        group = self._env.find(request.group_id)
        if group is None:
            code = ErrorCode.GROUP_ID_NOT_FOUND
            self._env.answer(reply_to, DescribeGroupResult(code, GroupState.DEAD))
        else:
            self._env.answer(reply_to, _description(group))

    def describe_consumers(self, request: DescribeConsumerGroup, reply_to: ReplyTo) -> None:
        """Answers at once, from what is committed."""
        image = self._env.kernel.committed.get(request.group_id)
        if not request.group_id:
            result = DescribeConsumerGroupResult(ErrorCode.INVALID_GROUP_ID)
        elif image is None or image.consumer is None:
            why = "not found" if image is None else "is not a consumer group"
            text = f"Group {request.group_id} {why}."
            result = DescribeConsumerGroupResult(ErrorCode.GROUP_ID_NOT_FOUND, error_message=text)
        else:
            assignor = image.consumer.assignor(self._env.config.consumer_assignors[0])
            result = DescribeConsumerGroupResult(ErrorCode.NONE, image.consumer, assignor)
        self._env.answer(reply_to, result)

    def describe_shares(self, request: DescribeShareGroup, reply_to: ReplyTo) -> None:
        """Answers at once, from what is committed."""
        image = self._env.kernel.committed.get(request.group_id)
        if not request.group_id:
            result = DescribeShareGroupResult(ErrorCode.INVALID_GROUP_ID)
        elif image is None or image.shares is None:
            why = "not found" if image is None else "is not a share group"
            text = f"Group {request.group_id} {why}."
            result = DescribeShareGroupResult(ErrorCode.GROUP_ID_NOT_FOUND, error_message=text)
        else:
            result = DescribeShareGroupResult(ErrorCode.NONE, image.shares)
        self._env.answer(reply_to, result)

    def delete(self, request: DeleteGroup, reply_to: ReplyTo) -> None:
        """Writes the tombstones; the answer leaves when they are committed."""
        group_id = request.group_id
        group, image = self._env.find(group_id), self._env.kernel.latest.get(group_id)
        if image is not None and image.consumer is not None:
            self._delete_consumers(group_id, image, image.consumer, reply_to)
        elif image is not None and image.shares is not None:
            self._delete_shares(request, image.shares, reply_to)
        elif group is None:
            self._env.answer(reply_to, DeleteGroupResult(ErrorCode.GROUP_ID_NOT_FOUND))
        elif group.members or group.state is not GroupState.EMPTY:
            self._env.answer(reply_to, DeleteGroupResult(ErrorCode.NON_EMPTY_GROUP))
        else:
            records: list[GroupsRecord] = []
            if image is not None:
                records += [OffsetRecord(group_id, each, None) for each in image.all_offsets]
            if image is not None and image.value is not None:
                records.append(GroupRecord(group_id, None))
            self._env.forget(group)
            self._env.write(records, DeleteGroupResult(ErrorCode.NONE), reply_to)

    def _delete_consumers(
        self, group_id: str, image: GroupImage, group: ConsumerGroup, reply_to: ReplyTo
    ) -> None:
        if group.subscriptions:
            self._env.answer(reply_to, DeleteGroupResult(ErrorCode.NON_EMPTY_GROUP))
            return
        records: list[GroupsRecord] = [
            OffsetRecord(group_id, each, None) for each in image.all_offsets
        ]
        records += group.tombstones(group_id)
        self._env.write(records, DeleteGroupResult(ErrorCode.NONE), reply_to)

    def _delete_shares(self, request: DeleteGroup, group: ShareGroup, reply_to: ReplyTo) -> None:
        """Its states at the share coordinators go first: nothing would know of them later."""
        group_id, states = request.group_id, group.known_states
        partitions = with_states(states, self._env.topics)
        # A member that came meanwhile, and went, has left others.
        are_deleted = request.are_states_deleted and not (states.initialized or states.initializing)
        if group.members:
            self._env.answer(reply_to, DeleteGroupResult(ErrorCode.NON_EMPTY_GROUP))
        elif partitions and not are_deleted:
            record = ShareGroupRecord(ShareKind.STATES, group_id, "", all_deleting(states))
            wanted = WantedStates(
                group_id, group.group_epoch, tuple((each, NO_OFFSET) for each in partitions)
            )
            self._env.write([record], DeleteGroupResult(ErrorCode.NONE, wanted), reply_to)
        else:
            records = group.tombstones(group_id)
            self._env.write(records, DeleteGroupResult(ErrorCode.NONE), reply_to)


def _listed(group_id: str, image: GroupImage) -> ListedGroup:
    """A group as the log has it."""
    if image.consumer is not None:
        return ListedGroup(group_id, CONSUMERS, image.consumer.state, GroupType.CONSUMER)
    if image.shares is not None:
        return ListedGroup(group_id, SHARES, image.shares.state, GroupType.SHARE)
    protocol_type = image.value.protocol_type if image.value else ""
    return ListedGroup(group_id, protocol_type, GroupState.EMPTY)


def _description(group: ClassicGroup) -> DescribeGroupResult:
    """A group; its protocol and what its members say of it count only while it is stable."""
    is_stable = group.state is GroupState.STABLE
    members = tuple(
        DescribedMember(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            each.metadata(group.protocol_name) if is_stable else b"",
            each.assignment,
        )
        for each in group.members.values()
    )
    name = (group.protocol_name or "") if is_stable else ""
    return DescribeGroupResult(
        ErrorCode.NONE, group.state, group.protocol_type or "", name, members
    )
