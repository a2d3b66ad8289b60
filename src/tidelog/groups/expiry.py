"""Committed offsets that no client has needed for `offsets.retention.minutes` are forgotten.

| the group | its offsets expire so long after |
| --- | --- |
| has no members | it became empty, and the commit |
| never had any | the commit |
| is a consumer group (KIP-848) | the commit, where no member is subscribed to the topic |
| is stable, of consumers whose topics are known | the commit, where none of them reads the topic |
| otherwise | never |

Offsets of a topic that was deleted are forgotten when the metadata says so, whatever their age and
the group: a topic of the same name is another one. An offset has the id of its topic. The metadata
of a coordinator is never older than that of its predecessor when it took the commit, for its own
election came later; so an id that is not there was deleted.

An offset that an open transaction may move does not expire (`transactions.py`).

A commit with an expiry of its own (OffsetCommit 2 to 4) expires then. A group without members and
without offsets is forgotten too. Kafka counts from the time at which the group became empty alone,
and so forgets a fresh commit of a tool to a group that has long been empty.

A look at all groups begins every `offsets.retention.check.interval.ms`. It goes in slices: a wake
looks at about `limits.OFFSETS_EXPIRED_PER_TURN` offsets, and a batch has no more records than that.
When topics were deleted a look begins at once, which is for their offsets only: a group whose last
members were silent for too long stays for a while, since it is forgotten for good to a member that
comes back (GROUP_ID_NOT_FOUND).

Source: KIP-211.
"""

from collections import deque

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.groups.env import Env
from tidelog.groups.group_state import GroupState
from tidelog.groups.image import GroupImage
from tidelog.groups.records import CommittedOffset, GroupRecord, GroupsRecord, OffsetRecord
from tidelog.groups.transactions import waits_for
from tidelog.limits import OFFSETS_EXPIRED_PER_TURN
from tidelog.model import NO_TIMESTAMP, ZERO_TOPIC_ID

_MS_PER_MINUTE = 60_000


class Expiry:
    """The expiry of one coordinator's offsets."""

    __slots__ = ("_deletions", "_env", "_goes_on_at", "_is_whole", "_left", "_next")

    def __init__(self, env: Env) -> None:
        self._env = env
        # When the next look at everything begins; `None` before the coordinator is active.
        self._next: Instant | None = None
        # When the look that is under way goes on; `None` between two looks.
        self._goes_on_at: Instant | None = None
        # Whether that one is for all that may have expired, or for deleted topics alone.
        self._is_whole = False
        # The deletions of topics that a look has begun after.
        self._deletions = 0
        # The groups that this look has not come to.
        self._left: deque[str] = deque()

    @property
    def due_at(self) -> Instant | None:
        """When to look again, or to go on: at once, when topics were deleted."""
        is_late = self._next is not None and self._deletions != self._env.topics.deletions
        return Instant(0) if is_late else self._goes_on_at or self._next

    def start(self, now: Instant) -> None:
        """The first look is one interval after the activation."""
        self._next = Instant(now + self._env.config.offsets_retention_check_interval_ms)

    def wake(self, now: Instant) -> None:
        """Begins to look at all groups when it is due, or looks at the next ones."""
        if self.due_at is None or now < self.due_at:
            return
        env, budget = self._env, OFFSETS_EXPIRED_PER_TURN
        if self._deletions != env.topics.deletions:
            self._deletions = env.topics.deletions
            self._is_whole &= self._goes_on_at is not None
            self._left.clear()
        elif self._goes_on_at is None:
            self._is_whole = True
        if not self._left:
            self._left.extend(group_id for group_id, _ in env.kernel.latest.groups.items())
        while self._left and budget > 0:
            group_id = self._left.popleft()
            image = env.kernel.latest.get(group_id)
            if image is None:
                continue
            budget -= 1 + len(image.offsets)
            records = self._of_deleted_topics(group_id, image)
            if self._is_whole and not records:
                records = self._expired(group_id, image, env.wall_ms(now))
            if not records:
                continue
            code = env.append(records[:OFFSETS_EXPIRED_PER_TURN])
            if code is ErrorCode.NONE and len(records) > OFFSETS_EXPIRED_PER_TURN:
                # All of them may be more than one batch can have.
                self._left.appendleft(group_id)
            elif code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR):
                # Replicas do not follow; the next look will find them again.
                self._left.clear()
        self._goes_on_at = Instant(now + 1) if self._left else None
        if self._is_whole and not self._left:
            self.start(now)

    def _expired(self, group_id: str, image: GroupImage, wall_ms: int) -> list[GroupsRecord]:
        """Tombstones of what has expired of a group, and of the group when nothing is left."""
        group, consumers = self._env.find(group_id), self._env.consumers(group_id)
        subscribed = self._env.topics_read_by(group_id)
        state = GroupState.STABLE if group is None else group.state
        is_empty = state is GroupState.EMPTY
        if subscribed is None or not (is_empty or state is GroupState.STABLE):
            return []
        value = image.value
        emptied_ms = value.state_timestamp_ms if is_empty and value is not None else NO_TIMESTAMP
        retention_ms = self._env.config.offsets_retention_minutes * _MS_PER_MINUTE

        def has_expired(offset: CommittedOffset) -> bool:
            if offset.expire_timestamp_ms != NO_TIMESTAMP:
                return wall_ms >= offset.expire_timestamp_ms
            return wall_ms - max(emptied_ms, offset.commit_timestamp_ms) >= retention_ms

        records: list[GroupsRecord] = [
            OffsetRecord(group_id, each, None)
            for each, offset in image.offsets.items()
            if each.topic not in subscribed
            and has_expired(offset)
            and not waits_for(image.waiting, each)
        ]
        if len(records) < len(image.offsets) or image.waiting:
            return records
        if consumers is not None and not consumers.subscriptions:
            records += consumers.tombstones(group_id)
        if value is not None and group is not None and group.is_idle:
            records.append(GroupRecord(group_id, None))
        return records

    def _of_deleted_topics(self, group_id: str, image: GroupImage) -> list[GroupsRecord]:
        known = self._env.topics
        return [
            OffsetRecord(group_id, each, None)
            for each, offset in image.offsets.items()
            if offset.topic_id != ZERO_TOPIC_ID
            and known.name_of(offset.topic_id) is None
            and not waits_for(image.waiting, each)
        ]
