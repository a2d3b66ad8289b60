"""What an administrator asks about groups: who is in them, how far they have read, how far behind.

Errors that stay are `AdminError`; `coordinators.py` has which pass.

Source: KIP-222, KIP-496, KIP-848; Kafka's protocol guide.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tidelog.client.blocking import Brokers
from tidelog.client.coordinators import GROUP, Coordinators, metadata_of
from tidelog.client.core.calls import Call, request
from tidelog.client.core.errors import AdminError, refusal
from tidelog.client.core.partitions import by_topic, list_offsets, read_offsets
from tidelog.client.core.values import LATEST, Address
from tidelog.errors import ErrorCode, MalformedFrame
from tidelog.model import NO_EPOCH, NO_OFFSET, TopicPartition
from tidelog.wire.api import ApiKey
from tidelog.wire.consumer_protocol import assignment_of
from tidelog.wire.entities import field
from tidelog.wire.values import error_of

_NO_GENERATION: Final = -1
_GROUPS_A_REQUEST: Final = 100


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in a list."""

    group_id: str
    state: str
    """`Stable`, `Empty`, `PreparingRebalance`, `CompletingRebalance`, `Assigning`,
    `Reconciling`."""
    group_type: str
    """`classic` or `consumer`; empty where a broker does not say."""
    protocol_type: str
    coordinator: int
    """The broker that answers for it."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a group, and what it is assigned."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """How far a group has read one partition."""

    topic: str
    partition: int
    committed_offset: int
    """-1 where nothing is committed."""
    log_end_offset: int
    """As consumers see it; -1 where it is not known."""
    member_id: str
    """Who reads it; empty when no member does."""

    @property
    def lag(self) -> int:
        """Records that the group has not read; -1 where it is not known."""
        if self.committed_offset < 0 or self.log_end_offset < 0:
            return -1
        return max(0, self.log_end_offset - self.committed_offset)


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group, its members and its progress."""

    group_id: str
    state: str
    group_type: str
    """`classic` or `consumer`."""
    protocol_type: str
    protocol: str
    """What the members agreed on, or the server's assignor."""
    members: tuple[GroupMember, ...]
    progress: tuple[GroupProgress, ...]


@dataclass(frozen=True, slots=True)
class GroupLag:
    """How far a group is behind."""

    group_id: str
    state: str
    lag: int | None
    """Records that it has not read, of partitions in which it has committed; `None` where its
    coordinator does not say."""


class Groups:
    """The groups of a cluster, for administrators."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._coordinators = Coordinators(brokers, GROUP)

    def list(self) -> list[GroupListing]:
        """All groups, by name; every broker is asked for those that it coordinates."""
        call = request(ApiKey.LIST_GROUPS, states_filter=(), types_filter=())
        found = [
            GroupListing(
                each.group_id,
                field(each, "group_state", ""),
                field(each, "group_type", "").lower(),
                each.protocol_type,
                node_id,
            )
            for node_id, answer in self._coordinators.ask_each(call, "list the groups")
            for each in answer.groups
        ]
        return sorted(found, key=lambda each: each.group_id)

    def describe(self, group_id: str) -> GroupDescription:
        """One group. Raises `AdminError` for one that does not exist."""
        what = f"describe group `{group_id}`"
        try:
            found = self._classic(group_id, what)
        except AdminError as error:
            types = {each.group_id: each.group_type for each in self.list()}
            if error.code is not ErrorCode.GROUP_ID_NOT_FOUND or types.get(group_id) != "consumer":
                raise
            found = self._consumers(group_id, what)
        members = found.members
        readers = {tp: each.member_id for each in members for tp in each.partitions}
        committed = self.offsets(group_id)
        partitions = sorted({*committed, *readers})
        ends = self.ends(partitions)
        progress = tuple(
            GroupProgress(
                *tp, committed.get(tp, NO_OFFSET), ends.get(tp, NO_OFFSET), readers.get(tp, "")
            )
            for tp in partitions
        )
        return replace(found, progress=progress)

    def _classic(self, group_id: str, what: str) -> GroupDescription:
        """A group of the classic protocol, without its progress."""
        call = request(
            ApiKey.DESCRIBE_GROUPS, groups=(group_id,), include_authorized_operations=False
        )
        group = self._coordinators.ask(group_id, call, what, lambda answer: answer.groups[0])
        if group.group_state == "Dead":
            raise refusal(ErrorCode.GROUP_ID_NOT_FOUND, "the group does not exist", what)
        members = tuple(
            GroupMember(
                each.member_id,
                field(each, "group_instance_id", None),
                each.client_id,
                each.client_host,
                _partitions_of(bytes(each.member_assignment)),
            )
            for each in group.members
        )
        return GroupDescription(
            group_id,
            group.group_state,
            "classic",
            group.protocol_type,
            group.protocol_data,
            members,
            (),
        )

    def _consumers(self, group_id: str, what: str) -> GroupDescription:
        """A consumer group (KIP-848), without its progress."""
        call = request(
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            group_ids=(group_id,),
            include_authorized_operations=False,
        )
        group = self._coordinators.ask(group_id, call, what, lambda answer: answer.groups[0])
        members = tuple(
            GroupMember(
                each.member_id,
                each.instance_id,
                each.client_id,
                each.client_host,
                tuple(
                    TopicPartition(topic.topic_name, number)
                    for topic in each.assignment.topic_partitions
                    for number in topic.partitions
                ),
            )
            for each in group.members
        )
        return GroupDescription(
            group_id, group.group_state, "consumer", "consumer", group.assignor_name, members, ()
        )

    def offsets(self, group_id: str) -> dict[TopicPartition, int]:
        """What a group has committed."""
        what = f"fetch the offsets of group `{group_id}`"
        return _committed(
            self._coordinators.ask(
                group_id, _fetch_offsets([group_id]), what, lambda answer: _of_groups(answer)[0]
            )
        )

    def lags(self) -> Sequence[GroupLag]:
        """How far all groups are behind, by name."""
        listed = self.list()
        brokers = metadata_of(self._brokers, []).brokers
        by_coordinator: dict[int, list[str]] = {}
        for each in listed:
            by_coordinator.setdefault(each.coordinator, []).append(each.group_id)
        committed: dict[str, dict[TopicPartition, int]] = {}
        for node_id, names in by_coordinator.items():
            for first in range(0, len(names), _GROUPS_A_REQUEST):
                some = names[first : first + _GROUPS_A_REQUEST]
                answer = self._brokers.node(brokers[node_id], _fetch_offsets(some))
                rows = zip(some, _of_groups(answer), strict=True)
                committed |= {
                    name: _committed(row)
                    for name, row in rows
                    if error_of(row.error_code) is ErrorCode.NONE
                }
        ends = self.ends(sorted({tp for offsets in committed.values() for tp in offsets}))
        return [
            GroupLag(each.group_id, each.state, _lag(committed.get(each.group_id), ends))
            for each in listed
        ]

    def ends(
        self,
        partitions: Sequence[TopicPartition],
        timestamp: int = LATEST,
        *,
        read_committed: bool = False,
    ) -> dict[TopicPartition, int]:
        """The ends (or other offsets) of partitions that their leaders know; others are left
        out."""
        if not partitions:
            return {}
        # Of all topics: one that was deleted must not hide the others.
        metadata = metadata_of(self._brokers, None)
        by_leader: dict[Address, dict[TopicPartition, tuple[int, int]]] = {}
        for tp in partitions:
            leader = metadata.leaders.get(tp)
            if leader is not None and leader.node_id in metadata.brokers:
                address = metadata.brokers[leader.node_id]
                by_leader.setdefault(address, {})[tp] = timestamp, NO_EPOCH
        found: dict[TopicPartition, int] = {}
        for address, wanted in by_leader.items():
            answered = read_offsets(
                self._brokers.node(address, list_offsets(wanted, read_committed=read_committed))
            )
            found |= {
                tp: offset for tp, (code, offset) in answered.items() if code is ErrorCode.NONE
            }
        return found

    def partitions_of(self, topic: str) -> Sequence[TopicPartition]:
        """All partitions of a topic. Raises `AdminError` when it does not exist."""
        metadata = metadata_of(self._brokers, [topic])
        return [TopicPartition(topic, number) for number in metadata.partitions_of(topic)]

    def reset(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commits offsets for a group without members. Raises `AdminError` for one that has
        some."""
        rows = {
            tp: {"committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": ""}
            for tp, offset in sorted(offsets.items())
        }
        call = request(
            ApiKey.OFFSET_COMMIT,
            group_id=group_id,
            generation_id_or_member_epoch=_NO_GENERATION,
            member_id="",
            group_instance_id=None,
            topics=by_topic(rows),
        )

        def worst(answer: Any) -> Any:
            found = [row for topic in answer.topics for row in topic.partitions]
            return max(found, key=lambda row: error_of(row.error_code) is not ErrorCode.NONE)

        self._coordinators.ask(group_id, call, f"reset the offsets of group `{group_id}`", worst)

    def delete(self, group_id: str) -> None:
        """Forgets a group without members. Raises `AdminError` for one that has some."""
        call = request(ApiKey.DELETE_GROUPS, groups_names=(group_id,))
        what = f"delete group `{group_id}`"
        self._coordinators.ask(group_id, call, what, lambda answer: answer.results[0])


def _fetch_offsets(group_ids: Sequence[str]) -> Call[Any]:
    """All that groups have committed; before version 8, one group."""
    groups = [
        {"group_id": each, "member_id": None, "member_epoch": _NO_GENERATION, "topics": None}
        for each in group_ids
    ]
    return request(
        ApiKey.OFFSET_FETCH, group_id=group_ids[0], topics=None, groups=groups, require_stable=False
    )


def _of_groups(answer: Any) -> Any:
    return field(answer, "groups", None) or (answer,)


def _committed(group: Any) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, row.partition_index): row.committed_offset
        for topic in group.topics
        for row in topic.partitions
        if row.committed_offset >= 0
    }


def _lag(
    committed: Mapping[TopicPartition, int] | None, ends: Mapping[TopicPartition, int]
) -> int | None:
    if committed is None:
        return None
    return sum(max(0, ends[tp] - offset) for tp, offset in committed.items() if tp in ends)


def _partitions_of(assignment: bytes) -> tuple[TopicPartition, ...]:
    """The partitions in a consumer's assignment; none in what is not one."""
    try:
        return assignment_of(assignment).partitions
    except MalformedFrame:
        return ()
