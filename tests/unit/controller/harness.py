"""A controller over a memory log, and a few verbs to write scenarios with.

Time is a number that the scenario moves. `settle` commits everything and collects the answers;
until then nothing is answered.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.unit.rsm.memory_log import MemoryLog
from tidelog.config import ControllerConfig
from tidelog.controller.controller import Controller
from tidelog.controller.messages import (
    AlterPartition,
    BrokerHeartbeat,
    BrokerHeartbeatResult,
    FeatureRange,
    IsrMember,
    IsrProposal,
    IsrResult,
    RegisterBroker,
    RegisterBrokerResult,
    Request,
)
from tidelog.controller.slices import Returned, Slices, Steps
from tidelog.controller.topic_messages import (
    CreateTopics,
    CreateTopicsResult,
    NewTopic,
    NewTopicResult,
)
from tidelog.controller.view import View
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace, TraceList
from tidelog.errors import ErrorCode
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    METADATA_VERSION,
    BrokerImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from tidelog.metadata.record_codec import decode_record
from tidelog.metadata.records import MetadataRecord
from tidelog.model import Endpoint, TopicId, Uuid

CLUSTER_ID = "cluster"
NODE_ID = 100
FEATURES = {
    METADATA_VERSION: FeatureRange(7, 30),
    ELIGIBLE_LEADER_REPLICAS_VERSION: FeatureRange(0, 1),
    "group.version": FeatureRange(0, 1),
    "share.version": FeatureRange(0, 1),
    "transaction.version": FeatureRange(0, 2),
}
CONFIG = ControllerConfig(default_replication_factor=3, min_insync_replicas=2)

# Images by hand, for deciders --------------------------------------------------------------


def directory_of(broker_id: int) -> Uuid:
    """The one log directory of a broker."""
    return Uuid(b"d" * 15 + bytes((broker_id,)))


def topic_id_of(name: str) -> TopicId:
    """An id that belongs to the name."""
    return TopicId(name.encode().ljust(16, b"."))


def a_broker(broker_id: int, **fields: Any) -> BrokerImage:
    """A live broker with epoch 10 times its id."""
    broker = BrokerImage(
        node_id=broker_id,
        broker_epoch=10 * broker_id,
        incarnation_id=Uuid(bytes((broker_id,)) * 16),
        endpoints=(Endpoint("PLAINTEXT", f"b{broker_id}", 9092),),
        rack=None,
        fenced=False,
        in_controlled_shutdown=False,
        features={name: (*levels,) for name, levels in FEATURES.items()},
        log_dirs=(directory_of(broker_id),),
        registration_offset=10 * broker_id,
    )
    return replace(broker, **fields)


def an_image(
    *brokers: BrokerImage, elr: bool = True, configs: Any = None, **topics: Sequence[PartitionImage]
) -> MetadataImage:
    """An image of these brokers and topics at offset 1000."""
    images = [
        TopicImage(name, topic_id_of(name), dict(enumerate(partitions)))
        for name, partitions in topics.items()
    ]
    features = {METADATA_VERSION: 30}
    if elr:
        features[ELIGIBLE_LEADER_REPLICAS_VERSION] = 1
    return MetadataImage(
        offset=1000,
        epoch=1,
        topics_by_name={topic.name: topic for topic in images},
        topics_by_id={topic.topic_id: topic for topic in images},
        brokers={broker.node_id: broker for broker in brokers},
        features=features,
        configs=configs or {},
    )


def a_view(image: MetadataImage, *, config: ControllerConfig = CONFIG, seed: int = 1) -> View:
    """What a decider sees of the image."""
    return View(
        image=image,
        next_offset=image.offset + 1,
        config=config,
        prng=Prng(seed),
        trace=Trace(TraceList()),
    )


def at_once(steps: Steps[Returned]) -> Returned:
    """What a decision in slices comes to, which needs one."""
    try:
        step = next(steps)
    except StopIteration as end:
        returned: Returned = end.value
        return returned
    raise AssertionError(f"there is more after {step}")


def to_the_end(steps: Steps[Returned], view: View) -> Returned:
    """What a decision in slices comes to, all of them on the same view."""
    try:
        next(steps)
        while True:
            steps.send(view)
    except StopIteration as end:
        returned: Returned = end.value
        return returned


def all_records(steps: Slices, view: View) -> list[MetadataRecord]:
    """The records of all slices, decided on the same view."""
    records: list[MetadataRecord] = []
    try:
        step = next(steps)
        while True:
            records += step.records
            step = steps.send(view)
    except StopIteration as end:
        return [*records, *end.value.records]


def after(image: MetadataImage, records: Sequence[MetadataRecord]) -> MetadataImage:
    """The image with a decision's records replayed."""
    delta = MetadataDelta(image)
    for offset, record in enumerate(records, start=image.offset + 1):
        delta.replay(record, offset)
    return delta.apply(image.offset + len(records), image.epoch)


# A whole controller ------------------------------------------------------------------------


class Stage:
    """One controller, its log, and time."""

    def __init__(self, *, config: ControllerConfig = CONFIG, seed: int = 1) -> None:
        self.log = MemoryLog()
        self.sink = TraceList()
        self.now = Instant(10_000)
        self.config = config
        self.controller = Controller(
            node_id=NODE_ID,
            cluster_id=CLUSTER_ID,
            config=config,
            log=self.log,
            prng=Prng(seed),
            trace=Trace(self.sink),
        )
        # Another node's controller: it only reads what is committed.
        self.standby = Controller(
            node_id=NODE_ID + 1,
            cluster_id=CLUSTER_ID,
            config=config,
            log=self.log,
            prng=Prng(seed),
            trace=Trace(TraceList()),
        )
        # Answers by the name of their request, in the order of arrival.
        self.answers: list[tuple[str, Any]] = []
        self.epochs: dict[int, int] = {}
        """Broker epochs by broker id, as the controller gave them."""

    # The quorum ----------------------------------------------------------------------------

    def lead(self, epoch: int = 1) -> None:
        """This node is elected and active."""
        start = self.log.lead(epoch)
        self.controller.on_leader_change(NODE_ID, epoch, start, self.now)
        self.settle()

    def lose(self, epoch: int = 2, keep: int = 0) -> None:
        """Another node is elected; of the uncommitted batches only `keep` survive."""
        self.log.lose(keep)
        self.controller.on_leader_change(NODE_ID + 1, epoch, -1, self.now)
        self.collect()

    def settle(self) -> None:
        """Everything is committed, and answered; the standby has the same image."""
        while True:
            self.go_on()
            batches = self.log.commit()
            if not batches:
                break
            for batch in batches:
                self.controller.on_committed(batch, self.now)
                self.controller.check()
                self.standby.on_committed(batch, self.now)
        self.standby.check()
        assert self.standby.image == self.controller.image
        self.collect()

    def go_on(self) -> None:
        """Long decisions go on to their end, a turn after the other."""
        while self.controller.deadline() == Instant(0):
            self.controller.wake(self.now)

    def collect(self) -> None:
        self.controller.check()
        for reply in self.controller.take_outputs():
            self.answers.append((str(reply.reply_to), reply.response))

    # Requests ------------------------------------------------------------------------------

    def send(self, request: Request, name: str = "r") -> None:
        """A request arrives; nothing is committed."""
        self.controller.handle(request, name, self.now)
        self.collect()

    def ask(self, request: Request) -> Any:
        """The committed answer to a request."""
        self.answers.clear()
        self.send(request)
        self.settle()
        assert len(self.answers) == 1, self.answers
        return self.answers.pop()[1]

    def register(self, broker_id: int, incarnation: bytes = b"a", **fields: Any) -> Any:
        """A broker registers; the answer."""
        request = RegisterBroker(
            broker_id=broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=Uuid(incarnation * 15 + bytes((broker_id,))),
            endpoints=(Endpoint("PLAINTEXT", f"b{broker_id}", 9092),),
            rack=None,
            features=FEATURES,
            log_dirs=(directory_of(broker_id),),
        )
        answer = self.ask(request._replace(**fields))
        if isinstance(answer, RegisterBrokerResult):
            self.epochs[broker_id] = answer.broker_epoch
        return answer

    def heartbeat(
        self, broker_id: int, *, offset: int | None = None, fence: bool = False, stop: bool = False
    ) -> Any:
        """A broker that has applied everything, or up to `offset`, heartbeats; the answer."""
        seen = self.controller.image.offset if offset is None else offset
        epoch = self.epochs[broker_id]
        return self.ask(BrokerHeartbeat(broker_id, epoch, seen, fence, stop))

    def bring_up(self, *broker_ids: int) -> None:
        """Brokers register and are unfenced."""
        for broker_id in broker_ids:
            self.register(broker_id)
            answer = self.heartbeat(broker_id)
            assert isinstance(answer, BrokerHeartbeatResult), answer
            assert not answer.is_fenced, answer

    def create(self, name: str, *replicas: tuple[int, ...], **fields: Any) -> NewTopicResult:
        """A topic with one partition for each list of replicas."""
        topic = NewTopic(name, assignments=tuple(enumerate(replicas)), **fields)
        answer = self.ask(CreateTopics((topic,)))
        assert isinstance(answer, CreateTopicsResult), answer
        return answer.topics[0]

    def propose(self, topic: str, number: int, *isr: int) -> IsrResult:
        """The partition's leader proposes an ISR, with everything else as it should be."""
        partition = self.partition(topic, number)
        proposal = IsrProposal(
            self.topic(topic).topic_id,
            number,
            partition.leader_epoch,
            partition.partition_epoch,
            tuple(IsrMember(broker_id, self.epochs[broker_id]) for broker_id in isr),
        )
        leader = partition.leader
        answer = self.ask(AlterPartition(leader, self.epochs[leader], (proposal,)))
        result = answer.results[0]
        assert isinstance(result, IsrResult)
        return result

    # Time ----------------------------------------------------------------------------------

    def pass_time(self, until: int) -> None:
        """Moves time to `until`, waking the controller exactly at its deadlines."""
        while True:
            deadline = self.controller.deadline()
            if deadline is None or deadline > until:
                break
            self.now = max(self.now, deadline)
            self.controller.wake(self.now)
            self.settle()
        self.now = Instant(until)

    # Views ---------------------------------------------------------------------------------

    def topic(self, name: str) -> TopicImage:
        topic = self.controller.image.topic(name)
        assert topic is not None, name
        return topic

    def partition(self, name: str, number: int = 0) -> PartitionImage:
        return self.topic(name).partitions[number]

    def broker(self, broker_id: int) -> BrokerImage:
        return self.controller.image.brokers[broker_id]

    def records(self) -> list[MetadataRecord]:
        """Every record in the log."""
        return [decode_record(value) for value in self.log.records]

    def lines(self) -> list[str]:
        """The trace since the last call."""
        return self.sink.take_lines()


def a_stage(*broker_ids: int, config: ControllerConfig = CONFIG) -> Stage:
    """An active controller with these brokers unfenced."""
    stage = Stage(config=config)
    stage.lead()
    stage.bring_up(*broker_ids)
    return stage


def code_of(answer: Any) -> ErrorCode:
    """The code with which a request was refused as a whole."""
    code = answer.error_code
    assert isinstance(code, ErrorCode)
    return code
