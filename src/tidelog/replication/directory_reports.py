"""Reports to the controller of where this node's replicas are (AssignReplicasToDirs, KIP-858).

The metadata has the log directory of each replica. The controller chooses it where a broker has one
directory; where it has several the broker does, and reports it here. So does a broker whose replica
is somewhere else than the metadata says, and one whose replica's log is lost (`quarantine`).

A report stands until the metadata agrees with it. All that stand go out together, up to
`MAX_REPLICAS_ASSIGNED` in one request, one request at a time, and again after a pause: an answer
proves nothing, only the metadata does.

Source: KIP-858; Kafka's `AssignmentsManager`.
"""

from itertools import islice

from tidelog.env.instant import Instant
from tidelog.limits import MAX_REPLICAS_ASSIGNED
from tidelog.metadata.image import MetadataImage, PartitionImage
from tidelog.model import ZERO_UUID, TopicId, TopicPartition, Uuid
from tidelog.replication.messages import ReplicaDirectory, SendAssignReplicas, Token
from tidelog.replication.shared import Env


class DirectoryReports:
    """What the metadata does not have yet of where replicas are."""

    __slots__ = ("_env", "_retry_at", "_standing", "_token")

    def __init__(self, env: Env) -> None:
        self._env = env
        # Where the metadata shall have a replica of this node; kept until it has.
        self._standing: dict[TopicPartition, ReplicaDirectory] = {}
        # The report under way.
        self._token: Token | None = None
        # No report before this instant; `None` outside of a pause.
        self._retry_at: Instant | None = None

    def __contains__(self, key: TopicPartition) -> bool:
        return key in self._standing

    def report(self, key: TopicPartition, topic_id: TopicId, directory_id: Uuid) -> None:
        """The replica is in this directory, or lost."""
        self._standing[key] = ReplicaDirectory(topic_id, key.partition, directory_id)

    def compare(self, key: TopicPartition, topic_id: TopicId, partition: PartitionImage) -> None:
        """Reports where the log of a hosted replica is, unless the metadata has it. Where it has
        nothing, one directory needs no report, unless another one is offline."""
        directories, said = self._env.directories, partition.directory_of(self._env.node_id)
        directory = directories.of(key)
        if directory is None or directory.directory_id == said:
            return
        target = directories.target_of(key)
        if target is not None and target.directory_id == said:
            # The log is on its way there.
            return
        if said != ZERO_UUID or len(directories.hosting) > 1 or directories.offline:
            self.report(key, topic_id, directory.directory_id)

    def on_metadata(self, key: TopicPartition, topic_id: TopicId, said: Uuid) -> None:
        """The metadata has a replica in this directory."""
        standing = self._standing.get(key)
        if standing is not None and standing == (topic_id, key.partition, said):
            del self._standing[key]

    def forget(self, key: TopicPartition) -> None:
        """The replica is no longer here."""
        self._standing.pop(key, None)

    def follow(self, image: MetadataImage) -> None:
        """Forgets what the metadata does not place here any more."""
        for key, report in list(self._standing.items()):
            partition = image.partition(report.topic_id, key.partition)
            if partition is None or self._env.node_id not in partition.replicas:
                del self._standing[key]

    def maybe_send(self, now: Instant) -> bool:
        """Reports what the metadata does not have yet, one request at a time."""
        if self._token is not None or not self._standing:
            return False
        if self._retry_at is not None and now < self._retry_at:
            return False
        self._retry_at = None
        self._token = self._env.outbox.new_token()
        reports = tuple(islice(self._standing.values(), MAX_REPLICAS_ASSIGNED))
        self._env.outbox.emit(SendAssignReplicas(self._token, self._env.brokers.own_epoch, reports))
        return True

    def on_response(self, token: Token, refusal: str | None, now: Instant) -> None:
        """The report was answered; what still stands is made again after a pause."""
        if token != self._token:
            return
        self._token = None
        retry_ms = self._env.config.alter_partition_retry_ms
        self._retry_at = Instant(now + retry_ms)
        if refusal is not None:
            self._env.trace.info("reports", "on_response", "retrying", refusal, ms=retry_ms)

    def deadline(self) -> Instant | None:
        """When the pause ends, if something waits for it."""
        return self._retry_at if self._standing and self._token is None else None
