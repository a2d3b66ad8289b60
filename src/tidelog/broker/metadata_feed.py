"""Committed metadata on its way to the replicas: batches in, one delta out.

All batches that one tick publishes (`quorum_follower.py`) make one delta, so that what is committed
together changes roles once. A batch that is longer than a tick may read is replayed in slices, and
none of it is in an image before all of it is: it may be atomic. A snapshot that arrives is the
difference between the image before and its own. The dynamic configurations (broker level and topic
level) are resolved here for each topic, because the replicas know neither names nor precedence.
"""

from tidelog.broker.events import PartnerTooOld
from tidelog.broker.features import older_than_partners
from tidelog.broker.metadata_snapshots import CommittedMetadata, LoadedImage
from tidelog.config import (
    LogConfig,
    NodeConfig,
    apply_broker_overrides,
    resolve_dynamic_config,
    resolve_topic_config,
)
from tidelog.env.instant import Instant
from tidelog.env.trace import Trace
from tidelog.kraft.messages import CommittedBatch
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import BROKER_RESOURCE, EMPTY_IMAGE, MetadataImage
from tidelog.metadata.record_codec import decode_record
from tidelog.replication.replicas import Replicas


class MetadataFeed:
    """The image that this node has published last."""

    def __init__(self, config: NodeConfig, replicas: Replicas, trace: Trace) -> None:
        self._config = config
        self._replicas = replicas
        self._trace = trace
        # The fold of everything published.
        self._image: MetadataImage = EMPTY_IMAGE
        # What was read since, and the offset of its last record.
        self._delta = MetadataDelta(EMPTY_IMAGE)
        self._end = EMPTY_IMAGE.offset

    def read(self, each: CommittedMetadata, most: int) -> int:
        """Replays up to so many records of what is committed next, for the image that will be
        published when all of it is read; returns how many."""
        if isinstance(each, LoadedImage):
            assert each.image.offset >= self._end, f"MetadataFollowsLog: image below {self._end}"
            self._delta = MetadataDelta(each.image)
            self._end = each.image.offset
            return 0
        assert each.base_offset <= self._end + 1 <= each.last_offset + 1, (
            f"MetadataFollowsLog: {each.base_offset} after {self._end}"
        )
        if each.is_control:
            self._end = each.last_offset
            return 0
        first = self._end + 1 - each.base_offset
        part = each.records[first : first + most]
        for offset, value in enumerate(part, start=self._end + 1):
            self._delta.replay(decode_record(value), offset)
        self._end += len(part)
        return len(part)

    def has_read(self, batch: CommittedBatch) -> bool:
        """Whether `read` has replayed all of it."""
        return self._end >= batch.last_offset

    def publish(self, epoch: int, now: Instant) -> MetadataImage:
        """Makes the image of what was read, the last of it of this epoch, and lets the replicas
        follow; returns the image."""
        before, delta = self._image, self._delta
        self._trace.steps.begin("metadata image")
        self._image = delta.apply(self._end, epoch)
        if delta.image is not before:
            # A snapshot lacks what is gone; the difference names it, and its image counts it.
            delta = MetadataDelta.between(before, self._image)
            self._image = delta.apply(self._end, epoch)
        self._delta = MetadataDelta(self._image)
        self._follow_dynamic_config(delta)
        self._name_old_partners(delta, before)
        self._trace.steps.begin("replicas follow metadata", self._end - before.offset)
        self._replicas.apply(delta, self._image, self._log_configs(), now)
        return self._image

    def _follow_dynamic_config(self, delta: MetadataDelta) -> None:
        if any(each.resource_type == BROKER_RESOURCE for each in delta.changed_configs):
            image = self._image
            own = image.broker_configs(self._config.node_id)
            dynamic = resolve_dynamic_config(own, image.broker_configs(None))
            self._replicas.set_throttled_rates(
                leader=dynamic.leader_throttled_rate,
                follower=dynamic.follower_throttled_rate,
                moves=dynamic.moves_rate,
            )

    def _name_old_partners(self, delta: MetadataDelta, before: MetadataImage) -> None:
        """Each registration of a broker that is older than what was tried beside ours, once."""
        for node_id in sorted(delta.changed_brokers):
            broker, former = self._image.brokers.get(node_id), before.brokers.get(node_id)
            if broker is None or (former and former.broker_epoch == broker.broker_epoch):
                continue
            if (highest := older_than_partners(broker)) is not None:
                self._trace.event(PartnerTooOld(node_id=node_id, highest=highest))

    def _log_configs(self) -> "_LogConfigs":
        return _LogConfigs(self._config, self._image)


class _LogConfigs:
    """Topic name to the configuration its logs obey, in one image; resolved once for each topic."""

    def __init__(self, config: NodeConfig, image: MetadataImage) -> None:
        self._image = image
        # The broker's level: static, then cluster-wide dynamic, then this broker's dynamic.
        defaults = apply_broker_overrides(config.log, image.broker_configs(None))
        self._defaults = apply_broker_overrides(defaults, image.broker_configs(config.node_id))
        self._resolved: dict[str, LogConfig] = {}

    def __call__(self, topic: str) -> LogConfig:
        config = self._resolved.get(topic)
        if config is None:
            config = resolve_topic_config(self._image.topic_configs(topic), self._defaults)
            self._resolved[topic] = config
        return config
