"""Names that Kafka 4.3 knows and that have no effect here, or another one.

A file written for Kafka must start a node, so these are accepted and ignored. Other names, which
Kafka does not know either, and those that Kafka 4 removed are ignored with a warning at each start.
"""

import re
from collections.abc import Iterable
from typing import Final

_FAMILIES: Final = """
:    auto.include.jmx.reporter background.threads client.quota.callback.class
    config.providers cordoned.log.dirs create.topic.policy.class.name
    delete.records.purgatory.purge.interval.requests early.start.listeners
    fetch.purgatory.purge.interval.requests kafka.metrics.polling.interval.secs
    kafka.metrics.reporters metric.reporters principal.builder.class
    producer.purgatory.purge.interval.requests queued.max.requests
    security.providers
    server.max.startup.time.ms telemetry.max.bytes
    unstable.api.versions.enable unstable.feature.versions.enable
alter: config.policy.class.name log.dirs.replication.quota.window.num
    log.dirs.replication.quota.window.size.seconds
controller: performance.always.log.threshold.ms performance.sample.period.ms socket.timeout.ms
follower: fetch.last.tiered.offset.enable replication.throttled.rate replication.throttled.replicas
group: coordinator.append.linger.ms coordinator.background.threads
    coordinator.cached.buffer.max.bytes coordinator.rebalance.protocols coordinator.threads
group.consumer: assignment.interval.ms assignor.offload.enable max.assignment.interval.ms
    min.assignment.interval.ms regex.refresh.interval.ms
group.share: assignment.interval.ms assignor.offload.enable assignors persister.class.name
group.share.max: assignment.interval.ms
group.share.min: assignment.interval.ms
group.streams: assignment.interval.ms assignor.offload.enable heartbeat.interval.ms
    initial.rebalance.delay.ms max.assignment.interval.ms max.heartbeat.interval.ms
    max.session.timeout.ms max.size max.standby.replicas min.assignment.interval.ms
    min.heartbeat.interval.ms min.session.timeout.ms num.standby.replicas session.timeout.ms
internal: metadata.delete.delay.millis metadata.log.segment.bytes metadata.max.batch.size.in.bytes
leader: replication.throttled.rate replication.throttled.replicas
log: flush.start.offset.checkpoint.interval.ms initial.task.delay.ms
log.cleaner: threads
max: request.partition.size.limit
metrics: num.samples recording.level sample.window.ms
num: io.threads network.threads recovery.threads.per.data.dir replica.alter.log.dirs.threads
    replica.fetchers
offsets: load.buffer.size topic.compression.codec
remote: fetch.max.wait.ms list.offsets.request.timeout.ms
remote.log: index.file.cache.total.size.bytes index.file.cache.ttl.ms
    metadata.custom.metadata.max.bytes metadata.manager.class.name metadata.manager.class.path
    metadata.manager.impl.prefix metadata.manager.listener.name reader.max.pending.tasks
    reader.threads storage.manager.class.name storage.manager.class.path storage.manager.impl.prefix
    storage.system.enable
remote.log.manager: copier.thread.pool.size copy.max.bytes.per.second copy.quota.window.num
    copy.quota.window.size.seconds expiration.thread.pool.size fetch.max.bytes.per.second
    fetch.quota.window.num fetch.quota.window.size.seconds follower.thread.pool.size
    task.interval.ms task.retry.backoff.max.ms task.retry.backoff.ms task.retry.jitter
    thread.pool.size
replica: alter.log.dirs.io.max.bytes.per.second socket.receive.buffer.bytes
sasl: client.callback.handler.class
sasl.kerberos: kinit.cmd min.time.before.relogin principal.to.local.rules service.name
    ticket.renew.jitter ticket.renew.window.factor
sasl.login: class connect.timeout.ms read.timeout.ms refresh.buffer.seconds
    refresh.min.period.seconds refresh.window.factor refresh.window.jitter
sasl.oauthbearer.assertion: algorithm claim.aud claim.exp.seconds claim.iss claim.jti.include
    claim.nbf.seconds claim.sub file private.key.file private.key.passphrase template.file
share: fetch.purgatory.purge.interval.requests
share.coordinator: append.linger.ms cached.buffer.max.bytes load.buffer.size threads
share.coordinator.state: topic.compression.codec
socket: connection.setup.timeout.max.ms receive.buffer.bytes send.buffer.bytes
ssl: engine.factory.class keymanager.algorithm provider secure.random.implementation
    trustmanager.algorithm
transaction: abort.timed.out.transaction.cleanup.interval.ms
    state.log.load.buffer.size two.phase.commit.enable
"""
"""Names by their beginning: `log:` is that of `log.initial.task.delay.ms`."""

KNOWN_NAMES: Final = frozenset(
    f"{prefix}.{name}" if prefix else name
    for prefix, names in (line.split(":") for line in re.split(r"\n(?=\S)", _FAMILIES.strip()))
    for name in names.split()
)
"""Names that are accepted and ignored."""

KNOWN_PREFIXES: Final = (
    "listener.name.",
    "remote.log.storage.manager.impl.",
    "rlmm.config.",
    "rsm.config.",
)
"""Beginnings of names that Kafka builds from listener and plug-in names."""

MIGRATION: Final = "zookeeper.metadata.migration.enable"
"""Kafka's last versions with ZooKeeper: a node that has it on writes to ZooKeeper as well."""

REMOVED_NAMES: Final = {
    "zookeeper.connect": "remove it: the metadata quorum is `controller.quorum.voters`",
    "zookeeper.session.timeout.ms": "remove it: there is no ZooKeeper",
    "zookeeper.connection.timeout.ms": "remove it: there is no ZooKeeper",
    MIGRATION: "remove it: there is no ZooKeeper",
    "broker.id.generation.enable": "remove it and set `node.id`",
    "control.plane.listener.name": "remove it: controllers have `controller.listener.names`",
    "inter.broker.protocol.version": "remove it: versions are negotiated",
    "log.message.format.version": "remove it: only record batch v2 is stored",
    "log.message.downconversion.enable": "remove it: only record batch v2 is served",
    "log.message.timestamp.difference.max.ms": "use `log.message.timestamp.before.max.ms` "
    "and `log.message.timestamp.after.max.ms`",
    "offsets.commit.required.acks": "remove it: commits always wait for the ISR",
}
"""Names that Kafka 4 no longer has, and the hint for each."""

# What an operator would count on ------------------------------------------------------------

_NO_FLUSH_BY_TIME: Final = (
    "nothing is flushed by time: set `log.flush.interval.messages`, or count on replicas"
)

WITHOUT_EFFECT: Final = {
    "controller.quorum.append.linger.ms": "appends are gathered while a flush is under way",
    "cordoned.log.dirs": "the directory takes new replicas",
    "log.flush.interval.ms": _NO_FLUSH_BY_TIME,
    "log.flush.scheduler.interval.ms": _NO_FLUSH_BY_TIME,
    "log.preallocate": "segment files grow with their records",
    "num.replica.fetchers": "one fetcher follows each leader",
}
"""Properties of replication and durability that are accepted and have no effect here: what holds
instead. An operator who sets one counts on its effect, so a node that starts logs each once.

Left out: names of parts that do not exist here at all (plug-ins of a JVM, Kerberos, tiered
storage), and sizes of threads and buffers, which promise nothing to an operator. `ignored` has
those.
"""


def without_effect(names: Iterable[str]) -> dict[str, str]:
    """Those of these properties that have no effect, in order of name, and what holds instead."""
    return {name: WITHOUT_EFFECT[name] for name in sorted(WITHOUT_EFFECT.keys() & set(names))}


def ignored(names: Iterable[str]) -> tuple[str, ...]:
    """Those of these properties that only Kafka's own parts would read, in order."""
    return tuple(sorted((KNOWN_NAMES & set(names)) - WITHOUT_EFFECT.keys()))
