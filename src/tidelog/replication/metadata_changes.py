"""How the hosted replicas follow the metadata.

`hosting` decides which replicas are to be hosted or dropped, `roles` carries it out; here the two
meet, with the rest of what a change of the metadata means: brokers that were fenced or returned,
topic configs, and logs that the metadata does not know.

Nothing is done before the metadata is in force (`ActsOnPresentMetadata`, see `hosting`); then
everything is caught up at once.

**New logs are made in slices.** A new log costs the disk about a millisecond, and a topic may have
thousands of partitions. Made in one turn they keep the node from its quorum, which then elects
another leader. So the image is published at once, and replicas whose logs are here change their
roles at once. New logs wait in a queue, and a turn makes at most `MAX_LOGS_CREATED_PER_TURN`. The
newest image decides what becomes of one when it comes to its turn, so a partition that was deleted
or moved meanwhile is never made. Until then the node answers NOT_LEADER_OR_FOLLOWER for it, and
clients and followers try again.
"""

from collections.abc import Iterable
from itertools import islice

from tidelog.env.instant import Instant
from tidelog.limits import MAX_LOGS_CREATED_PER_TURN
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    ConfigResource,
    MetadataImage,
    TopicImage,
)
from tidelog.model import METADATA_PARTITION, TopicPartition
from tidelog.replication import hosting
from tidelog.replication.events.roles import StraySetAside
from tidelog.replication.messages import LogConfigs
from tidelog.replication.roles import Roles


class MetadataChanges:
    """Applies images and deltas to what is hosted."""

    __slots__ = ("_env", "_roles", "_to_create", "create_at", "in_force")

    def __init__(self, roles: Roles) -> None:
        self._env = roles.env
        self._roles = roles
        # Partitions of this node that have no log yet, in the order in which they came up.
        self._to_create: dict[TopicPartition, None] = {}
        # When the next logs are due: at once while there are any; `None` with an empty queue.
        self.create_at: Instant | None = None
        # Whether the metadata is recent enough to act on; once true it stays so.
        self.in_force = False

    def apply(
        self, delta: MetadataDelta, image: MetadataImage, log_configs: LogConfigs, now: Instant
    ) -> None:
        """Follows one group of committed metadata batches: see `Replicas.apply`."""
        env, hosted, roles = self._env, self._env.hosted, self._roles
        hosted.image, hosted.log_configs = image, log_configs
        if not self.in_force:
            self.maybe_take_effect(now)
            return
        if delta.changed_brokers:
            env.brokers.follow(image)
            roles.fetchers.resume(sorted(delta.changed_brokers))
            # A broker that may no longer join an ISR, or is fenced, is no longer waited for.
            env.changed.mark_uncommitted(hosted.partitions.values())
        self._carry_out(hosting.changed_topics(delta, image), delta.deleted_topics, now)
        roles.follow_damaged(now)
        env.directory.forget_renamed()
        self._reconfigure(delta)

    def maybe_take_effect(self, now: Instant) -> bool:
        """Catches up with everything if the metadata is in force by now."""
        env, hosted = self._env, self._env.hosted
        if not hosting.is_in_force(hosted.image, env.node_id, env.brokers.own_epoch):
            return False
        self.in_force = True
        env.brokers.follow(hosted.image)
        self._carry_out(hosting.all_topics(hosted.image), (), now)
        env.directory.forget_renamed()
        return True

    def _carry_out(
        self, topics: Iterable[TopicImage], deleted: Iterable[TopicImage], now: Instant
    ) -> None:
        roles, hosted, directory = self._roles, self._env.hosted.partitions, self._env.directory
        decisions = hosting.decide_hosting(topics, deleted, hosted, self._env.node_id)
        for decision in list(decisions):
            key = decision.topic_partition
            if isinstance(decision, hosting.Drop):
                roles.drop(key, decision.reason)
            elif key in directory.logs or key in directory.damaged or key in roles.quarantine.cases:
                roles.host(decision, now)
            else:
                self._to_create[key] = None
        self.create_logs(now)

    def create_logs(self, now: Instant) -> None:
        """Makes the next logs of the queue, as the newest image has their partitions."""
        hosted, node_id = self._env.hosted, self._env.node_id
        for key in list(islice(self._to_create, MAX_LOGS_CREATED_PER_TURN)):
            del self._to_create[key]
            topic = hosted.image.topics_by_name.get(key.topic)
            if topic is None or key in hosted.partitions or key.partition not in topic.partitions:
                continue
            image = topic.partitions[key.partition]
            if node_id in image.replicas:
                self._roles.host(hosting.Host(key, topic.topic_id, image), now)
        self.create_at = now if self._to_create else None

    def _reconfigure(self, delta: MetadataDelta) -> None:
        if not delta.changed_configs:
            return
        hosted = self._env.hosted
        changed = delta.changed_configs
        everything = any(kind == BROKER_RESOURCE for kind, _ in changed)
        for key, partition in hosted.partitions.items():
            if everything or ConfigResource(TOPIC_RESOURCE, key.topic) in changed:
                partition.log.reconfigure(hosted.log_configs(key.topic))
                self._env.changed.mark(partition)

    def remove_strays(self) -> list[TopicPartition]:
        """Sets logs aside that the metadata does not place on this node: see
        `Replicas.remove_strays`."""
        if not self.in_force:
            return []
        directory = self._env.directory
        logs = {
            key: log.topic_id for key, log in directory.logs.items() if key != METADATA_PARTITION
        }
        found = hosting.decide_strays(self._env.hosted.image, logs, self._env.node_id)
        known = {METADATA_PARTITION, *self._roles.quarantine.cases}
        found += [key for key in directory.damaged if key not in known]
        for key in found:
            self._env.trace.event(StraySetAside(partition=key))
            self._roles.set_aside(key)
        directory.forget_renamed()
        return found
