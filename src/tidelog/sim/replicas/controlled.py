"""The metadata of a cluster as the real controller makes it, over a log that commits at once."""

from collections.abc import Hashable, Sequence

from tidelog.broker import features
from tidelog.config import ControllerConfig
from tidelog.controller import messages, topic_messages
from tidelog.controller.controller import Controller
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.env.trace import Level, Trace, TraceList
from tidelog.errors import ErrorCode
from tidelog.kraft.messages import CommittedBatch
from tidelog.metadata.record_codec import decode_record
from tidelog.metadata.records import NoOpRecord
from tidelog.model import Endpoint, TopicId, Uuid
from tidelog.replication.messages import IsrResult, SendAlterPartition
from tidelog.sim.replicas.feed import MetadataFeed, refused

FEATURES = {name: messages.FeatureRange(*served) for name, served in features.FEATURES.items()}
CONTROLLER_ID = 100


class _InstantLog:
    """The quorum's log with a quorum of one: what is appended is committed."""

    def __init__(self) -> None:
        self.end_offset = 0
        # Appended, not yet handed out as committed.
        self.fresh: list[CommittedBatch] = []

    def append(self, records: Sequence[bytes]) -> int:
        """Appends one batch."""
        return self.commit(list(records), is_control=False)

    def commit(self, records: list[bytes], *, is_control: bool) -> int:
        """Appends a batch of either kind."""
        last = self.end_offset + len(records) - 1
        self.fresh.append(CommittedBatch(self.end_offset, last, 1, 0, records, is_control))
        self.end_offset = last + 1
        return last


class ControlledFeed(MetadataFeed):
    """A feed whose records are the controller's decisions."""

    def __init__(self, seed: int, min_isr: int = 2) -> None:
        super().__init__()
        self.now = Instant(0)
        self.trace = TraceList()
        self._log = _InstantLog()
        self._prng = Prng(seed)
        self._controller = Controller(
            node_id=CONTROLLER_ID,
            cluster_id="cluster",
            config=ControllerConfig(
                broker_session_timeout_ms=300, max_idle_interval_ms=0, min_insync_replicas=min_isr
            ),
            log=self._log,
            prng=Prng(seed + 1),
            trace=Trace(self.trace, Level.INFO),
        )
        self._log.commit([b""], is_control=True)
        self._flow()
        self._controller.on_leader_change(CONTROLLER_ID, 1, 0, self.now)
        self._flow()

    def _flow(self) -> dict[Hashable, messages.Response]:
        """Lets the controller's timers and long decisions run, and hands out what was committed;
        returns the answers that came of it."""
        while True:
            fresh, self._log.fresh = self._log.fresh, []
            for batch in fresh:
                self._controller.on_committed(batch, self.now)
                if batch.is_control:
                    self.write(NoOpRecord())
                else:
                    self.write(*(decode_record(value) for value in batch.records))
            deadline = self._controller.deadline()
            if deadline is not None and deadline <= self.now:
                self._controller.wake(self.now)
            elif not self._log.fresh:
                break
        return {reply.reply_to: reply.response for reply in self._controller.take_outputs()}

    def ask(self, request: messages.Request) -> messages.Response:
        """One request and its answer."""
        self._controller.handle(request, "asked", self.now)
        return self._flow()["asked"]

    def register(self, node_id: int) -> int:
        """Registers a new process, which cannot show how the one before ended; -1 while the
        controller takes the one before for alive."""
        answer = self.ask(
            messages.RegisterBroker(
                broker_id=node_id,
                cluster_id="cluster",
                incarnation_id=Uuid(self._prng.uuid()),
                endpoints=(Endpoint("INTERNAL", "localhost", 9000 + node_id),),
                rack=None,
                features=FEATURES,
                log_dirs=(Uuid(bytes(14) + bytes([1, node_id])),),
            )
        )
        if isinstance(answer, messages.Refused):
            assert answer.error_code is ErrorCode.DUPLICATE_BROKER_REGISTRATION, f"{answer}"
            return -1
        assert isinstance(answer, messages.RegisterBrokerResult), f"{answer}"
        return answer.broker_epoch

    def heartbeat(self, node_id: int, broker_epoch: int) -> None:
        """The broker has applied what it was given and wants to serve."""
        applied = self._applied.get(node_id)
        offset = -1 if applied is None else applied.offset
        self.ask(messages.BrokerHeartbeat(node_id, broker_epoch, offset, False, False))

    def unfence(self, node_id: int) -> None:
        """The controller does that when the broker has caught up."""

    def wake(self) -> None:
        """Lets the controller's timers run."""
        self._flow()

    def suspect(self, node_id: int) -> None:
        """Every connection of the broker was closed and it refuses new ones."""
        self._controller.on_broker_suspected(node_id, self.now)
        self._flow()

    def create_topic(
        self, name: str, replicas: tuple[int, ...], *, partitions: int = 1, **configs: str
    ) -> TopicId:
        """Creates a topic with given placement."""
        topic = topic_messages.NewTopic(
            name,
            assignments=tuple((number, replicas) for number in range(partitions)),
            configs=tuple(configs.items()),
        )
        answer = self.ask(topic_messages.CreateTopics((topic,)))
        assert isinstance(answer, topic_messages.CreateTopicsResult), f"{answer}"
        assert answer.topics[0].error_code is ErrorCode.NONE, f"{answer}"
        return answer.topics[0].topic_id

    def reassign(self, name: str, replicas: tuple[int, ...]) -> None:
        """Gives partition 0 of a topic other replicas."""
        change = messages.Reassignment(name, 0, replicas)
        answer = self.ask(messages.AlterReassignments((change,)))
        assert isinstance(answer, messages.AlterReassignmentsResult), f"{answer}"
        assert answer.results[0].error_code is ErrorCode.NONE, f"{answer}"

    def decide(self, sender: int, request: SendAlterPartition) -> list[IsrResult]:
        """Asks the controller."""
        proposals = tuple(
            messages.IsrProposal(
                proposal.topic_id,
                proposal.topic_partition.partition,
                proposal.leader_epoch,
                proposal.partition_epoch,
                proposal.new_isr,
                proposal.recovering,
            )
            for proposal in request.proposals
        )
        answer = self.ask(messages.AlterPartition(sender, request.broker_epoch, proposals))
        if isinstance(answer, messages.Refused):
            return refused(request, answer.error_code)
        assert isinstance(answer, messages.AlterPartitionResult), f"{answer}"
        return list(answer.results)
