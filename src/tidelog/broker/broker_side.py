"""What makes a node a broker: its registration and heartbeats, and the traffic of its replicas.

Replicas follow the metadata and exchange messages with other brokers. What they, the life cycle and
the producer ids need of the controller are calls over the control link. Outcomes come back here by
their token.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from tidelog.broker.api import k00_produce, k01_fetch, k21_delete_records, k27_write_txn_markers
from tidelog.broker.auto_topics import AutoCreate
from tidelog.broker.context import Broker
from tidelog.broker.control_link import CallEnded
from tidelog.broker.events import DirectoryWentOffline, LogFailed
from tidelog.broker.lifecycle import BrokerLifecycle
from tidelog.broker.replica_link import ReplicaLink
from tidelog.broker.share_fetches import ShareRead
from tidelog.broker.transaction_checks import TransactionChecks
from tidelog.controller import messages as controller_messages
from tidelog.env.instant import Instant, earliest
from tidelog.log.directories import LogDirectories
from tidelog.model import TopicPartition
from tidelog.replication import messages as replication_messages


@dataclass(slots=True, eq=False, kw_only=True)
class BrokerSide:
    """One node's broker, as the node drives it."""

    broker: Broker
    # There is no broker before all its logs are loaded.
    directories: LogDirectories
    lifecycle: BrokerLifecycle
    replica_link: ReplicaLink
    transaction_checks: TransactionChecks
    # Stops the node at once, for this reason.
    fail: Callable[[str], None]
    # Why the node must stop: its log directory failed. None while it works.
    _failure: str | None = field(default=None, init=False)

    def flow(self, now: Instant) -> bool:
        """One round: the replicas' outputs, then due calls; returns whether anything moved."""
        self.broker.replicas.wake(now)
        self.lifecycle.metadata_offset = self.broker.replicas.applied_offset
        moved = self._flow_replicas(now)
        self._make_calls(now)
        if self._failure is not None:
            self.fail(self._failure)
        return moved

    def _flow_replicas(self, now: Instant) -> bool:
        outputs = self.broker.replicas.take_outputs()
        if not outputs:
            return False
        for output in outputs:
            match output:
                case replication_messages.Reply(reply_to, response):
                    if isinstance(reply_to, k00_produce.ProduceCall):
                        k00_produce.on_reply(self.broker, reply_to, response)  # type: ignore[arg-type]
                    elif isinstance(reply_to, k27_write_txn_markers.MarkersCall):
                        k27_write_txn_markers.on_reply(reply_to, response)  # type: ignore[arg-type]
                    elif isinstance(reply_to, k21_delete_records.DeleteCall):
                        k21_delete_records.on_reply(reply_to, response)  # type: ignore[arg-type]
                    elif isinstance(reply_to, ShareRead):
                        self.broker.sharing.on_read(reply_to, response, now)  # type: ignore[arg-type]
                    else:
                        k01_fetch.on_reply(self.broker, reply_to, response, now)  # type: ignore[arg-type]
                case replication_messages.VerifyTransaction():
                    self.transaction_checks.ask(output, now)
                case replication_messages.SendFetch() | replication_messages.SendListOffsets():
                    self.replica_link.send(output, now)
                case replication_messages.SendAssignReplicas():
                    report = self.replica_link.assign_replicas_of(output)
                    self.broker.control.call(report, output, now)
                case replication_messages.SendAlterPartition():
                    message = self.replica_link.alter_partition_of(output)
                    self.broker.control.call(message, output, now)
                case replication_messages.LogDirFailed(topic_partition, error):
                    self._on_log_dir_failed(topic_partition, error)
                case replication_messages.DirectoryOffline():
                    self._on_directory_offline(output, now)
        return True

    def _on_log_dir_failed(self, topic_partition: TopicPartition, error: str) -> None:
        self.broker.trace.event(LogFailed(partition=topic_partition, reason=error))
        self._failure = (
            f"the log directory failed at `{topic_partition}`: {error}; hint: free space or repair "
            "the disk, then start the node again"
        )

    def _on_directory_offline(
        self, offline: replication_messages.DirectoryOffline, now: Instant
    ) -> None:
        self.broker.trace.event(DirectoryWentOffline(root=offline.root, reason=offline.error))
        self.lifecycle.on_directory_offline(offline.directory_id, now)
        if not self.directories.hosting:
            self._failure = (
                "all log directories have failed; hint: repair a disk, then start the node again"
            )

    def _make_calls(self, now: Instant) -> None:
        """Starts the calls that the lifecycle and the producer ids need."""
        broker = self.broker
        if not self.directories.is_loaded:
            return
        self.lifecycle.must_stay_fenced = broker.replicas.is_reporting_damage
        call = self.lifecycle.next_call(now)
        if call is not None:
            broker.control.call(call, self.lifecycle, now)
        if broker.producer_ids.wants_block(now):
            message = controller_messages.AllocateProducerIds(
                broker.config.node_id, self.lifecycle.broker_epoch
            )
            broker.control.call(message, broker.producer_ids, now)

    def on_call_ended(self, outcome: CallEnded, now: Instant) -> None:
        """The controller answered one of this broker's calls, or the call failed."""
        broker, token, response = self.broker, outcome.token, outcome.response
        if token is self.lifecycle:
            self.lifecycle.finalised = broker.image.features
            self.lifecycle.on_response(response, now)
            broker.replicas.broker_epoch = self.lifecycle.broker_epoch
            if self.lifecycle.unfenced:
                broker.replicas.remove_strays(now)
        elif token is broker.producer_ids:
            broker.producer_ids.on_response(response, now)
        elif isinstance(token, AutoCreate):
            broker.auto_topics.on_created(token, response)
        elif isinstance(token, replication_messages.SendAssignReplicas):
            self.replica_link.on_assign_replicas_result(token, response, now)
        else:
            assert isinstance(token, replication_messages.SendAlterPartition), f"token {token!r}"
            self.replica_link.on_alter_partition_result(token, response, now)

    def answer_held(self, now: Instant) -> None:
        """Answers the requests that were held for as long as they had to be."""
        if not self.broker.held_questions.has_any:
            return
        self.broker.trace.steps.begin("held questions")
        self.broker.held_questions.answer_due(
            caught_up=self.lifecycle.has_caught_up, connections=self.broker.connections, now=now
        )

    def deadline(self) -> Instant | None:
        """When one of its parts has something to do."""
        broker = self.broker
        held = broker.held_questions
        # No call is made before all logs are loaded.
        makes_calls = self.directories.is_loaded
        return earliest(
            broker.replicas.deadline(),
            self.lifecycle.deadline() if makes_calls else None,
            broker.producer_ids.deadline() if makes_calls else None,
            held.deadline(caught_up=self.lifecycle.has_caught_up) if held.has_any else None,
        )

    def check(self) -> None:
        """Asserts what must hold between two events; the node checks the replicas, which every node
        has."""
        self.broker.fetch_sessions.check()
