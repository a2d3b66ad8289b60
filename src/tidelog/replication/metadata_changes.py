"""How the hosted replicas follow the metadata.

`hosting` decides which step a partition needs, `roles` carries it out; here the two meet, with the
rest of what a change of the metadata means: brokers that were fenced or returned, topic configs,
and logs that the metadata does not know.

Nothing is done before the metadata is in force (`ActsOnPresentMetadata`, see `hosting`); then
everything is caught up.

**In slices.** One change may concern thousands of partitions: a topic is made or deleted, a broker
dies, a broker's config changes. Done in one turn, that keeps the node from its quorum, which then
elects another leader. So the image is published at once, and what it means for each partition is
queued:

1. Partitions that may be concerned are *sorted*: compared with the newest image, and put into the
   queue by the step that they need (`step_queue`).
2. Steps are taken, the most urgent first, until the work of the turn is spent
   (`limits.REPLICA_WORK_PER_TURN`; each step has its price). The next turn comes a millisecond
   later at the latest, with whatever has arrived meanwhile before it. Where only logs are left
   that are to be made or to go, which nothing waits for but themselves, a turn takes a part of
   the work and a pause follows it (`limits.UNHURRIED_PAUSE_MS`).
   A follower of which nothing but the ISR has changed follows at once: its ISR means nothing to
   it before it leads.
3. What is done is decided from the newest image. A partition that was deleted or moved while it
   waited is never made, and of two elections only the second takes place here.

**Why a replica may be late.** To its partition a replica that waits is one whose metadata has not
arrived yet, and that may take any time in any case: epochs fence what it sends and what it gets.
Two things are added, because other metadata may be here earlier:

- `ConfigBeforeIsr`: a replica takes its topic's configuration over no later than an ISR that was
  decided on it. A leader with the new ISR and the former, smaller `min.insync.replicas` would
  commit without members that the controller takes for complete.
- `PublishedRolesServe`: while partitions wait, a replica takes records, and answers questions about
  offsets, only if its topic id and leader epoch are the published ones (`shared.Hosted.find`).
  Otherwise a client that knows that its topic was deleted and made again could have records
  acknowledged by the old log, just before it goes.

`LateReplicasWait`: a replica that does not follow the published image waits for its turn.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from tidelog.env.instant import LONG_AGO, Instant
from tidelog.limits import (
    LOG_CREATION_WORK,
    LOG_DELETION_WORK,
    ROLE_CHANGE_WORK,
    UNHURRIED_PAUSE_MS,
    UNHURRIED_SHARE,
)
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage
from tidelog.model import METADATA_PARTITION, ZERO_TOPIC_ID, TopicId, TopicPartition
from tidelog.replication import hosting
from tidelog.replication.events.roles import DropReason, StraySetAside
from tidelog.replication.hosting import Step
from tidelog.replication.messages import LogConfigs
from tidelog.replication.partition import Partition
from tidelog.replication.roles import Roles
from tidelog.replication.step_queue import StepQueue

_SORTING_WORK: Final = 3
_FOLLOWED_ISR_WORK: Final = ROLE_CHANGE_WORK // 10
_WORK: Final = {
    Step.STOP_LEADING: ROLE_CHANGE_WORK,
    Step.BEGIN_LEADING: ROLE_CHANGE_WORK,
    Step.CHANGE_ISR: ROLE_CHANGE_WORK,
    Step.FOLLOW: ROLE_CHANGE_WORK,
    Step.RECONFIGURE: ROLE_CHANGE_WORK // 10,
    Step.CREATE: LOG_CREATION_WORK,
    Step.DROP: LOG_DELETION_WORK,
    Step.SET_ASIDE: LOG_DELETION_WORK,
}


class MetadataChanges:
    """Applies images and deltas to what is hosted."""

    __slots__ = (
        "_env",
        "_queue",
        "_roles",
        "_sets_aside",
        "_unsorted",
        "_worked_at",
        "applied_offset",
        "in_force",
    )

    def __init__(self, roles: Roles) -> None:
        self._env = roles.env
        self._roles = roles
        # Partitions to be compared with the newest image; and whether their configs are news.
        self._unsorted: deque[tuple[Iterator[TopicPartition], bool]] = deque()
        # Partitions that were, and need a step.
        self._queue = StepQueue()
        # When work was done last.
        self._worked_at: Instant = LONG_AGO
        # Whether logs that the metadata does not place here are to be set aside.
        self._sets_aside = False
        # The newest metadata according to which all replicas lead and follow; what has only to do
        # with files may be behind. Before the metadata is in force, the newest there is.
        self.applied_offset = -1
        # Whether the metadata is recent enough to act on; once true it stays so.
        self.in_force = False

    # What there is to do ----------------------------------------------------------------------

    def apply(
        self, delta: MetadataDelta, image: MetadataImage, log_configs: LogConfigs, now: Instant
    ) -> None:
        """Follows one group of committed metadata batches: see `Replicas.apply`."""
        env, hosted, roles = self._env, self._env.hosted, self._roles
        hosted.image, hosted.log_configs = image, log_configs
        if not self.in_force:
            self.applied_offset = image.offset
            self.maybe_take_effect(now)
            return
        if delta.changed_brokers:
            env.brokers.follow(image)
            roles.fetchers.resume(sorted(delta.changed_brokers))
        for topic in delta.deleted_topics:
            self._sort(hosting.keys_of(topic.name, topic.partitions))
        for topic in hosting.changed_topics(delta, image):
            self._sort(hosting.keys_of(topic.name, delta.changed_partitions(topic.topic_id)))
        self._reconfigure(delta)
        roles.follow_damaged()
        self.work(now)

    def maybe_take_effect(self, now: Instant) -> bool:
        """Begins to catch up with everything if the metadata is in force by now."""
        env, image = self._env, self._env.hosted.image
        if not hosting.is_in_force(image, env.node_id, env.brokers.own_epoch):
            return False
        self.in_force = True
        # The registration does not count before the replicas lead and follow.
        self.applied_offset = min(self.applied_offset, env.brokers.own_epoch - 1)
        env.brokers.follow(image)
        self._sort(hosting.all_partitions(image))
        self.work(now)
        return True

    def set_aside_strays(self, now: Instant) -> None:
        """Sets logs aside that the metadata does not place on this node: see
        `Replicas.remove_strays`."""
        if self.in_force and not self._sets_aside:
            self._sets_aside = True
            directories = self._env.directories
            self._sort(sorted((*directories.logs, *directories.damaged)))
            self.work(now)

    def _sort(self, keys: Iterable[TopicPartition], *, configs_changed: bool = False) -> None:
        self._unsorted.append((iter(keys), configs_changed))

    def _reconfigure(self, delta: MetadataDelta) -> None:
        changed, hosted = delta.changed_configs, self._env.hosted
        if any(kind == BROKER_RESOURCE for kind, _ in changed):
            self._sort(list(hosted.partitions), configs_changed=True)
            return
        for kind, name in changed:
            topic = hosted.image.topics_by_name.get(name) if kind == TOPIC_RESOURCE else None
            if topic is not None:
                self._sort(hosting.keys_of(name, topic.partitions), configs_changed=True)

    # Doing it ---------------------------------------------------------------------------------

    @property
    def work_per_turn(self) -> int:
        """The most work of one turn, but for its last step."""
        return self._env.config.metadata_work_per_turn

    @property
    def has_work(self) -> bool:
        """Whether a replica waits for its turn, or a log for the rest of its repair or reading."""
        return self._is_behind or self._roles.quarantine.under_way is not None

    @property
    def is_idle(self) -> bool:
        """Whether the metadata is in force, and nothing is to be done about it."""
        return self.in_force and not self.has_work

    @property
    def _is_behind(self) -> bool:
        return bool(self._unsorted or self._queue)

    @property
    def has_deletions(self) -> bool:
        """Whether the log of a replica waits to be deleted."""
        return bool(self._unsorted) or self._queue.has_any(Step.DROP, Step.SET_ASIDE)

    @property
    def _is_unhurried(self) -> bool:
        """Whether only logs wait that are to be made or to go, and no role or configuration."""
        queue = self._queue
        return (
            bool(queue)
            and not self._unsorted
            and not queue.has_any(Step.STOP_LEADING, Step.RECONFIGURE)
        )

    def deadline(self) -> Instant | None:
        """The next turn, if there is work: a millisecond after this one, or a pause."""
        if not self.has_work:
            return None
        return Instant(self._worked_at + (UNHURRIED_PAUSE_MS if self._is_unhurried else 1))

    def work(self, now: Instant) -> None:
        """Sorts and takes steps until the work of this turn is spent."""
        work = self._env.work
        work.on_tick(now)
        if self._is_unhurried and now < self._worked_at + UNHURRIED_PAUSE_MS:
            return
        if now > self._worked_at:
            self._worked_at = now
            work.left = max(work.left, 1, self.work_per_turn // 4)
        if self._is_unhurried:
            work.left = min(work.left, max(1, self.work_per_turn // UNHURRIED_SHARE))
        while work.left > 0 and self.has_work:
            work.spend(self._work_on_next(now))
        if not self._unsorted and not self._queue.has_any(Step.STOP_LEADING, Step.FOLLOW):
            self.applied_offset = self._env.hosted.image.offset
        self._env.hosted.is_behind = self._is_behind

    def _work_on_next(self, now: Instant) -> int:
        """Sorts a partition, takes a step, or goes on with a repair or a reading; returns how much
        work that was, beside these."""
        if not self._unsorted:
            damaged = None if self._queue else self._roles.quarantine.under_way
            key, step = (damaged, Step.FOLLOW) if damaged is not None else self._queue.take()
            return self._take_step(key, step, now)
        keys, configs_changed = self._unsorted[0]
        unsorted = next(keys, None)
        if unsorted is None:
            self._unsorted.popleft()
            return 0
        placed = hosting.placed_here(self._env.hosted.image, unsorted, self._env.node_id)
        if placed is not None and self._roles.maybe_follow_isr(placed):
            self._queue.put(unsorted, None)
            return _SORTING_WORK + _FOLLOWED_ISR_WORK
        needed = self._step_of(unsorted, placed)
        configs_changed |= self._queue.step_of(unsorted) is Step.RECONFIGURE
        if needed is None and configs_changed and unsorted in self._env.hosted.partitions:
            needed = Step.RECONFIGURE
        self._queue.put(unsorted, needed)
        return _SORTING_WORK

    def _step_of(self, key: TopicPartition, placed: hosting.Host | None) -> Step | None:
        hosted, node_id = self._env.hosted, self._env.node_id
        partition, log_topic_id = hosted.partitions.get(key), self._log_topic_id(key)
        step = hosting.decide_step(placed, partition, log_topic_id, node_id)
        if step is None and placed is None and log_topic_id is not None and self._is_stray(key):
            return Step.SET_ASIDE
        return step

    def _log_topic_id(self, key: TopicPartition) -> TopicId | None:
        directories = self._env.directories
        if key in directories.damaged or key in self._roles.quarantine.cases:
            return ZERO_TOPIC_ID
        log = directories.logs.get(key)
        return None if log is None else log.topic_id

    def _is_stray(self, key: TopicPartition) -> bool:
        known = key == METADATA_PARTITION or key in self._roles.quarantine.cases
        return self._sets_aside and not known

    def _take_step(self, key: TopicPartition, step: Step, now: Instant) -> int:
        hosted, roles = self._env.hosted, self._roles
        placed = hosting.placed_here(hosted.image, key, self._env.node_id)
        partition = hosted.partitions.get(key)
        work = _WORK[step]
        if placed is not None:
            if step is Step.CREATE and (partition is not None or key in self._env.directories.logs):
                work += LOG_DELETION_WORK
            roles.host(placed, now)
        elif partition is not None:
            gone = partition.topic_id not in hosted.image.topics_by_id
            roles.drop(key, DropReason.TOPIC_DELETED if gone else DropReason.ASSIGNED_ELSEWHERE)
        elif self._is_stray(key):
            self._env.trace.event(StraySetAside(partition=key))
            roles.set_aside(key)
        return work

    # Invariants -------------------------------------------------------------------------------

    def check(self) -> None:
        """Asserts what must hold between two events."""
        hosted = self._env.hosted
        self._queue.check()
        assert hosted.is_behind == self._is_behind, "LateReplicasWait: requests are not looked at"
        assert self.in_force or not hosted.partitions, "ActsOnPresentMetadata"
        if self._unsorted:
            return
        for key, partition in hosted.partitions.items():
            assert key in self._queue or self._follows_published(partition), (
                f"LateReplicasWait: {key} follows {partition.image}"
            )

    def _follows_published(self, partition: Partition) -> bool:
        hosted = self._env.hosted
        placed = hosting.placed_here(hosted.image, partition.topic_partition, self._env.node_id)
        if placed is None or placed.topic_id != partition.topic_id:
            return False
        # An answer of the controller may have been faster than the metadata.
        ahead = placed.image.partition_epoch < partition.partition_epoch
        return partition.offline is not None or ahead or partition.image == placed.image
