"""How the hosted replicas follow the metadata.

`hosting` decides which replicas are to be hosted or dropped, `roles` carries it out; here the two
meet, with the rest of what a change of the metadata means: brokers that were fenced or returned,
topic configs, and logs that the metadata does not know.

Nothing is done before the metadata is in force (`ActsOnPresentMetadata`, see `hosting`); then
everything is caught up at once.
"""

from collections.abc import Iterable

from tidelog.env.instant import Instant
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

    __slots__ = ("_env", "_roles", "in_force")

    def __init__(self, roles: Roles) -> None:
        self._env = roles.env
        self._roles = roles
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
        hosted, node_id = self._env.hosted.partitions, self._env.node_id
        self._roles.carry_out(hosting.decide_hosting(topics, deleted, hosted, node_id), now)

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
