"""Committed metadata on its way to the replicas: batches in, one delta out.

All batches that were committed in one tick make one delta, so that a broker's death, which may
touch ten thousand partitions in several batches, changes roles once. The dynamic configurations
(broker level and topic level) are resolved here for each topic, because the replicas know neither
names nor precedence.
"""

from collections.abc import Sequence

from tidelog.config import (
    LogConfig,
    NodeConfig,
    apply_broker_overrides,
    resolve_dynamic_config,
    resolve_topic_config,
)
from tidelog.env.instant import Instant
from tidelog.kraft.messages import CommittedBatch
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import BROKER_RESOURCE, EMPTY_IMAGE, MetadataImage
from tidelog.metadata.records import decode_record
from tidelog.replication.replicas import Replicas


class MetadataFeed:
    """The image as this node's broker side sees it."""

    def __init__(self, config: NodeConfig, replicas: Replicas) -> None:
        self._config = config
        self._replicas = replicas
        # The fold of everything published.
        self._image: MetadataImage = EMPTY_IMAGE

    def publish(self, batches: Sequence[CommittedBatch], now: Instant) -> MetadataImage:
        """Applies committed batches and lets the replicas follow; returns the new image."""
        assert batches, "nothing to publish"
        delta = MetadataDelta(self._image)
        for batch in batches:
            assert batch.base_offset > self._image.offset, "MetadataFollowsLog: batch seen twice"
            if not batch.is_control:
                for index, value in enumerate(batch.records):
                    delta.replay(decode_record(value), batch.base_offset + index)
        last = batches[-1]
        self._image = delta.apply(last.last_offset, last.epoch)
        self._follow_dynamic_config(delta)
        self._replicas.apply(delta, self._image, self._log_configs(), now)
        return self._image

    def _follow_dynamic_config(self, delta: MetadataDelta) -> None:
        if any(each.resource_type == BROKER_RESOURCE for each in delta.changed_configs):
            image = self._image
            own = image.broker_configs(self._config.node_id)
            dynamic = resolve_dynamic_config(own, image.broker_configs(None))
            self._replicas.set_throttled_rates(
                leader=dynamic.leader_throttled_rate, follower=dynamic.follower_throttled_rate
            )

    def _log_configs(self) -> "_LogConfigs":
        return _LogConfigs(self._config, self._image)


class _LogConfigs:
    """Topic name to the configuration its logs obey, in one image."""

    def __init__(self, config: NodeConfig, image: MetadataImage) -> None:
        self._image = image
        # The broker's level: static, then cluster-wide dynamic, then this broker's dynamic.
        defaults = apply_broker_overrides(config.log, image.broker_configs(None))
        self._defaults = apply_broker_overrides(defaults, image.broker_configs(config.node_id))

    def __call__(self, topic: str) -> LogConfig:
        return resolve_topic_config(self._image.topic_configs(topic), self._defaults)
