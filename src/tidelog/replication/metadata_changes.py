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
from tidelog.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage
from tidelog.model import METADATA_PARTITION, TopicPartition
from tidelog.replication.events.roles import StraySetAside
from tidelog.replication.hosting import (
    Drop,
    Host,
    all_topics,
    changed_topics,
    decide_hosting,
    decide_strays,
    is_in_force,
)
from tidelog.replication.partition import PartitionEnv
from tidelog.replication.roles import LogConfigs, LogStore, Parts, Roles


class MetadataChanges:
    """Applies images and deltas to what is hosted."""

    __slots__ = ("_directory", "_env", "_log_configs", "_parts", "_roles", "in_force")

    def __init__(self, directory: LogStore, parts: Parts, roles: Roles, env: PartitionEnv) -> None:
        self._directory = directory
        self._parts = parts
        self._roles = roles
        self._env = env
        # Of the newest metadata.
        self._log_configs: LogConfigs | None = None
        # Whether the metadata is recent enough to act on; once true it stays so.
        self.in_force = False

    def apply(
        self, delta: MetadataDelta, image: MetadataImage, log_configs: LogConfigs, now: Instant
    ) -> None:
        """Follows one group of committed metadata batches: see `Replicas.apply`."""
        parts = self._parts
        parts.hosted.image = image
        self._log_configs = log_configs
        if not self.in_force:
            self.maybe_take_effect(now)
            return
        if delta.changed_brokers:
            self._env.brokers.follow(image)
            parts.fetchers.resume(sorted(delta.changed_brokers))
            # A broker that may no longer join an ISR, or is fenced, is no longer waited for.
            parts.changed.mark_uncommitted(parts.hosted.partitions.values())
        self._carry_out(
            decide_hosting(
                changed_topics(delta, image),
                delta.deleted_topics,
                parts.hosted.partitions,
                self._env.node_id,
            ),
            now,
        )
        self._roles.follow_damaged(image, now)
        self._directory.forget_renamed()
        self._reconfigure(delta)

    def maybe_take_effect(self, now: Instant) -> bool:
        """Catches up with everything if the metadata is in force by now."""
        hosted, node_id = self._parts.hosted, self._env.node_id
        if not is_in_force(hosted.image, node_id, self._env.brokers.own_epoch):
            return False
        self.in_force = True
        self._env.brokers.follow(hosted.image)
        topics = all_topics(hosted.image)
        self._carry_out(decide_hosting(topics, (), hosted.partitions, node_id), now)
        self._directory.forget_renamed()
        return True

    def _carry_out(self, decisions: Iterable[Drop | Host], now: Instant) -> None:
        assert self._log_configs is not None, "no metadata was applied"
        self._roles.carry_out(decisions, self._log_configs, now)

    def _reconfigure(self, delta: MetadataDelta) -> None:
        if not delta.changed_configs:
            return
        assert self._log_configs is not None, "no metadata was applied"
        everything = any(
            resource.resource_type == BROKER_RESOURCE for resource in delta.changed_configs
        )
        topics = {
            resource.name
            for resource in delta.changed_configs
            if resource.resource_type == TOPIC_RESOURCE
        }
        for key, partition in self._parts.hosted.partitions.items():
            if everything or key.topic in topics:
                partition.log.reconfigure(self._log_configs(key.topic))
                self._parts.changed.mark(partition)

    def remove_strays(self) -> list[TopicPartition]:
        """Sets logs aside that the metadata does not place on this node: see
        `Replicas.remove_strays`."""
        if not self.in_force:
            return []
        directory = self._directory
        logs = {
            key: log.topic_id for key, log in directory.logs.items() if key != METADATA_PARTITION
        }
        found = decide_strays(self._parts.hosted.image, logs, self._env.node_id)
        known = {METADATA_PARTITION, *self._parts.quarantine.cases}
        found += [key for key in directory.damaged if key not in known]
        for key in found:
            self._env.trace.event(StraySetAside(partition=key))
            self._roles.set_aside(key)
        directory.forget_renamed()
        return found
