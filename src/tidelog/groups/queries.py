"""What administrators ask about groups, and how they delete them.

Descriptions are of the moment, members included. A group is deleted when it has no members: its
offsets and its record get tombstones in one batch.

Source: KIP-222, KIP-229, KIP-518, KIP-1043.
"""

from tidelog.errors import ErrorCode
from tidelog.groups.classic_group import ClassicGroup
from tidelog.groups.env import Env
from tidelog.groups.messages import (
    DeleteGroup,
    DeleteGroupResult,
    DescribedMember,
    DescribeGroup,
    DescribeGroupResult,
    GroupState,
    ListedGroup,
    ReplyTo,
)
from tidelog.groups.records import GroupRecord, GroupsRecord, OffsetRecord


class Queries:
    """Answers administrators about the groups of one coordinator."""

    __slots__ = ("_env",)

    def __init__(self, env: Env) -> None:
        self._env = env

    def list(self) -> list[ListedGroup]:
        """All groups."""
        env = self._env
        found = {
            group_id: ListedGroup(
                group_id, image.value.protocol_type if image.value else "", GroupState.EMPTY
            )
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

    def delete(self, request: DeleteGroup, reply_to: ReplyTo) -> None:
        """Writes the tombstones; the answer leaves when they are committed."""
        group_id = request.group_id
        group, image = self._env.find(group_id), self._env.kernel.latest.get(group_id)
        if group is None or image is None:
            code = ErrorCode.GROUP_ID_NOT_FOUND if group_id else ErrorCode.INVALID_GROUP_ID
            if group is not None:
                code = ErrorCode.NON_EMPTY_GROUP
            self._env.answer(reply_to, DeleteGroupResult(code))
        elif group.state is not GroupState.EMPTY:
            self._env.answer(reply_to, DeleteGroupResult(ErrorCode.NON_EMPTY_GROUP))
        else:
            records: list[GroupsRecord] = [
                OffsetRecord(group_id, each, None) for each in image.all_offsets
            ]
            if image.value is not None:
                records.append(GroupRecord(group_id, None))
            self._env.write(records, DeleteGroupResult(ErrorCode.NONE), reply_to)


def _description(group: ClassicGroup) -> DescribeGroupResult:
    """A group; what its members say and were assigned counts only while it is stable."""
    is_stable = group.state is GroupState.STABLE
    members = tuple(
        DescribedMember(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            each.metadata(group.protocol_name) if is_stable else b"",
            each.assignment if is_stable else b"",
        )
        for each in group.members.values()
    )
    name = (group.protocol_name or "") if is_stable else ""
    return DescribeGroupResult(
        ErrorCode.NONE, group.state, group.protocol_type or "", name, members
    )
