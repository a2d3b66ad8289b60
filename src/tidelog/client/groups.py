"""What an administrator asks about groups: who is in them, how far they have read, how far behind.

A group's coordinator is looked for with each question, because it may move at any time; a question
that finds none, or one that is being loaded, is asked again until the deadline. Errors that stay
are `AdminError`.

Source: KIP-222, KIP-496, KIP-848; Kafka's protocol guide.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from tidelog.client.blocking import Brokers, now_ms, retrying
from tidelog.client.core.calls import Call, request
from tidelog.client.core.errors import (
    RETRIABLE_COMMIT,
    AdminError,
    Retry,
    TopicError,
    check,
    refusal,
)
from tidelog.client.core.partitions import (
    Metadata,
    by_topic,
    list_offsets,
    metadata_request,
    read_metadata,
    read_offsets,
)
from tidelog.client.core.values import LATEST, Address
from tidelog.errors import ErrorCode, MalformedFrame
from tidelog.model import NO_EPOCH, NO_OFFSET, TopicPartition
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import field
from tidelog.wire.notation import CLASSIC, INT32, MALFORMED
from tidelog.wire.values import error_of

_GROUP_KEY: Final = 0
_NO_GENERATION: Final = -1
_VERSION_BYTES: Final = 2
_MIN_TOPIC_BYTES: Final = 6

T = TypeVar("T")


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


class Groups:
    """The groups of a cluster, for administrators."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    def list(self) -> list[GroupListing]:
        """All groups, by name; every broker is asked for those that it coordinates."""
        call = request(ApiKey.LIST_GROUPS, states_filter=(), types_filter=())
        found = []
        for node_id, address in sorted(self._metadata([]).brokers.items()):
            what = f"list the groups of broker {node_id}"
            answer = self._retrying(lambda at=address: self._brokers.node(at, call), what)
            found += [
                GroupListing(
                    each.group_id,
                    field(each, "group_state", ""),
                    field(each, "group_type", "").lower(),
                    each.protocol_type,
                    node_id,
                )
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
        group = self._ask(group_id, call, what, lambda answer: answer.groups[0])
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
        group = self._ask(group_id, call, what, lambda answer: answer.groups[0])
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
        call = request(ApiKey.OFFSET_FETCH, group_id=group_id, topics=None, require_stable=False)
        answer = self._ask(group_id, call, f"fetch the offsets of group `{group_id}`")
        return {
            TopicPartition(topic.name, row.partition_index): row.committed_offset
            for topic in answer.topics
            for row in topic.partitions
            if row.committed_offset >= 0
        }

    def ends(
        self, partitions: Sequence[TopicPartition], timestamp: int = LATEST
    ) -> dict[TopicPartition, int]:
        """The ends (or other offsets) of partitions that their leaders know; others are left
        out."""
        if not partitions:
            return {}
        # Of all topics: one that was deleted must not hide the others.
        metadata = self._metadata(None)
        by_leader: dict[Address, dict[TopicPartition, tuple[int, int]]] = {}
        for tp in partitions:
            leader = metadata.leaders.get(tp)
            if leader is not None and leader.node_id in metadata.brokers:
                address = metadata.brokers[leader.node_id]
                by_leader.setdefault(address, {})[tp] = timestamp, NO_EPOCH
        found: dict[TopicPartition, int] = {}
        for address, wanted in by_leader.items():
            answered = read_offsets(self._brokers.node(address, list_offsets(wanted)))
            found |= {
                tp: offset for tp, (code, offset) in answered.items() if code is ErrorCode.NONE
            }
        return found

    def partitions_of(self, topic: str) -> Sequence[TopicPartition]:
        """All partitions of a topic. Raises `AdminError` when it does not exist."""
        metadata = self._metadata([topic])
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

        self._ask(group_id, call, f"reset the offsets of group `{group_id}`", worst)

    def delete(self, group_id: str) -> None:
        """Forgets a group without members. Raises `AdminError` for one that has some."""
        call = request(ApiKey.DELETE_GROUPS, groups_names=(group_id,))
        what = f"delete group `{group_id}`"
        self._ask(group_id, call, what, lambda answer: answer.results[0])

    # Inside -------------------------------------------------------------------------------

    def _ask(
        self, group_id: str, call: Call[Any], what: str, result_of: Any = lambda answer: answer
    ) -> Any:
        """The result of a group's coordinator. Raises `AdminError`."""
        return self._retrying(
            lambda: result_of(self._brokers.node(self._coordinator(group_id, what), call)), what
        )

    def _retrying(self, ask: Any, what: str) -> Any:
        """Asks until the error is not a passing one of coordinators."""

        def attempt() -> Any:
            result = ask()
            code = error_of(result.error_code)
            if code in RETRIABLE_COMMIT:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            check(code, None, what)
            return result

        return retrying(attempt, Retry(now_ms(), self._brokers.timeout_s))

    def _coordinator(self, group_id: str, what: str) -> Address:
        call = request(
            ApiKey.FIND_COORDINATOR, key=group_id, key_type=_GROUP_KEY, coordinator_keys=[group_id]
        )
        answer = self._brokers.any(call)
        found: Any = (field(answer, "coordinators", None) or (answer,))[0]
        check(error_of(found.error_code), found.error_message, what)
        return Address(found.host, int(found.port))

    def _metadata(self, topics: Sequence[str] | None) -> Metadata:
        try:
            return read_metadata(self._brokers.any(metadata_request(topics)))
        except TopicError as error:
            raise refusal(error.code, None, f"find `{error.topic}`") from None


def _partitions_of(assignment: bytes) -> tuple[TopicPartition, ...]:
    """The partitions in a consumer's assignment; none in what is not one."""
    found = []
    try:
        topics, position = CLASSIC.read_count(assignment, _VERSION_BYTES, _MIN_TOPIC_BYTES)
        for _ in range(topics):
            topic, position = CLASSIC.read_text(assignment, position)
            count, position = CLASSIC.read_count(assignment, position, INT32.size)
            for _ in range(count):
                found.append(TopicPartition(topic, INT32.unpack_from(assignment, position)[0]))
                position += INT32.size
    except (MalformedFrame, *MALFORMED):
        return ()
    return tuple(found)
