"""A few brokers' replication rooms in virtual time: real logs on memory disks, real fetch sessions,
and a network of links that take one millisecond.

Nothing happens by itself: `run` moves time. Events of one instant run in the order in which they
came up, so a run repeats exactly.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

from tidelog.broker.fetch_sessions import FetchSession
from tidelog.config import ReplicationConfig
from tidelog.env.effects import Flush, Replace
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode, ProtocolError, StorageError
from tidelog.log.checkpoint import CleanShutdown
from tidelog.log.identity import format_directory
from tidelog.log.partition_directories import RenamesForgotten
from tidelog.log.values import LogFlush
from tidelog.model import TopicId, Uuid
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.replication.messages import (
    AlterPartitionResult,
    ListOffsetsResult,
    LogDirFailed,
    LogStartsSaved,
    Output,
    Reply,
    RoleChanged,
    SendAlterPartition,
    SendFetch,
    SendListOffsets,
    TruncationsAnnounced,
)
from tidelog.sim.engine.disk import SimDisk
from tidelog.sim.engine.timeline import Timeline
from tidelog.sim.replicas.broker import Broker
from tidelog.sim.replicas.feed import LISTENER, MetadataFeed
from tidelog.sim.replicas.reading import joined
from tidelog.wire.fetch import FetchedPartition, FetchPartition, FetchRequest, FetchResponse
from tidelog.wire.produce import ProducePartition, ProduceRequest

LINK_MS = 1
CONFIG = ReplicationConfig(
    replica_lag_time_max_ms=1000,
    replica_fetch_wait_max_ms=100,
    replica_fetch_backoff_ms=200,
    high_watermark_checkpoint_interval_ms=500,
    recovery_point_checkpoint_interval_ms=5000,
)


Sent = SendFetch | SendListOffsets


class Producer(NamedTuple):
    """Who sends a batch, and which of his batches it is."""

    producer_id: int = -1
    epoch: int = -1
    sequence: int = -1
    is_transactional: bool = False


ANYBODY = Producer()


@dataclass(eq=False)
class Call:
    """A request of one broker to another that is under way; the `reply_to` of its fetch."""

    sender: int
    incarnation: int
    sent: Sent
    session: FetchSession | None = None

    @property
    def key(self) -> tuple[int, int, int]:
        """Unique in a run."""
        return (self.sender, self.incarnation, self.sent.token)


class Cluster:
    """Brokers, links, and the controller's answers."""

    def __init__(
        self,
        nodes: Iterable[int] = (1, 2, 3),
        *,
        config: ReplicationConfig = CONFIG,
        feed: MetadataFeed | None = None,
    ) -> None:
        # Messages and flushes; `run` moves it.
        self.timeline = Timeline(start=1000)
        self.feed = MetadataFeed() if feed is None else feed
        # Trace lines and replies since they were last taken.
        self.lines: list[str] = []
        self.brokers = {node: self._broker(node, config) for node in nodes}
        # Answers of the controller: the feed decides, or decides and the answer is lost, or nobody
        # answers, or a fixed code.
        self.controller: str = "decides"
        # Messages from one node to another are refused.
        self.cut: set[tuple[int, int]] = set()
        # Messages from one node to another are kept back.
        self.held: set[tuple[int, int]] = set()
        # Replies to produce requests and consumer fetches, by the name of the request.
        self.replies: dict[str, list[Any]] = {}
        # Called with a broker whenever something happened to it.
        self.observers: list[Callable[[Broker], None]] = []
        # Every AlterPartition request that arrived.
        self.proposals: list[SendAlterPartition] = []
        self._names = count(1)
        self._kept_back: list[tuple[tuple[int, int], Callable[[], None]]] = []
        # Requests between brokers that are not answered.
        self._calls: dict[tuple[int, int, int], Call] = {}
        for node in self.brokers:
            self.start(node)

    def _broker(self, node: int, config: ReplicationConfig) -> Broker:
        disk = SimDisk(f"/b{node}")
        format_directory(
            disk, cluster_id="cluster", node_id=node, directory_id=Uuid(bytes(15) + bytes([node]))
        )
        return Broker(node, disk, self.lines, config)

    # Life of brokers --------------------------------------------------------------------------

    def start(self, node: int, *, unfence: bool = True) -> None:
        """Starts a process, registers it, and lets it see the metadata."""
        broker = self.brokers[node]
        broker.start()
        self.feed.forget(node)
        broker.replicas.broker_epoch = self.feed.register(node)
        if unfence:
            self.feed.unfence(node)

    def kill(self, node: int) -> None:
        """The process ends; what it wrote stays, flushed or not. Who waits for it hears so."""
        self.brokers[node].running = False
        for call in list(self._calls.values()):
            if call.sent.leader_id == node:
                self._fail_later(call)

    def stop(self, node: int) -> None:
        """A clean stop: everything is flushed, and the marker is written."""
        broker = self.brokers[node]
        broker.directory.close_cleanly(CleanShutdown(broker.replicas.broker_epoch))
        for effect in broker.effects.take():
            if isinstance(effect, Replace):
                broker.disk.replace(effect.path, effect.data)
            elif isinstance(effect, Flush):
                broker.disk.sync(effect.file)
        self.kill(node)

    def cut_power(self, node: int) -> None:
        """The process ends, and what was not flushed is lost."""
        self.kill(node)
        self.brokers[node].disk.crash()

    def _fail_later(self, call: "Call") -> None:
        self.later(LINK_MS, lambda: self.answer(call, None))

    # Time -------------------------------------------------------------------------------------

    @property
    def now(self) -> Instant:
        """The time of all brokers."""
        return self.timeline.now

    def later(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Does something after a while."""
        self.timeline.at(delay_ms, action)

    def run(self, for_ms: int) -> None:
        """Moves time."""
        end = self.now + for_ms
        self._settle()
        while (due := self._next()) is not None and due <= end:
            self.timeline.run_for(max(0, due - self.now))
            self._settle()
        self.timeline.run_for(end - self.now)

    def _next(self) -> Instant | None:
        """When something happens next: an event, or a timer of a broker."""
        due = [self.timeline.next_at]
        due += [one.replicas.deadline() for one in self.brokers.values() if one.running]
        return min((at for at in due if at is not None), default=None)

    def _settle(self) -> None:
        """The end of a tick on every broker, until nothing is left to hand on."""
        for _ in range(100):
            moved = [self._settle_broker(broker) for broker in self.brokers.values()]
            if not any(moved):
                return
        raise AssertionError("the brokers do not come to rest within one instant")

    def _settle_broker(self, broker: Broker) -> bool:
        if not broker.running:
            return False
        if broker.sees_metadata:
            upto = broker.metadata_end - 1
            if broker.lives_in_the_past:
                upto = broker.replicas.broker_epoch - 1
            self.feed.publish(broker.node_id, broker.replicas, self.now, upto)
        broker.replicas.wake(self.now)
        outputs = broker.replicas.take_outputs()
        flushed = self._carry_out_effects(broker)
        for output in outputs:
            self._carry_out(broker, output)
        broker.replicas.check()
        for observe in self.observers:
            observe(broker)
        return bool(outputs) or flushed

    def _carry_out_effects(self, broker: Broker) -> bool:
        broker.waiting_flushes += broker.effects.take()  # type: ignore[arg-type]
        if not broker.flushes or not broker.waiting_flushes:
            return False
        effects = broker.waiting_flushes
        broker.waiting_flushes = []
        for effect in effects:
            self._carry_out_effect(broker, effect)
        return True

    def _carry_out_effect(self, broker: Broker, effect: Flush | Replace) -> None:
        subject = effect.subject
        known = LogFlush | TruncationsAnnounced | LogStartsSaved | RenamesForgotten
        assert subject is None or isinstance(subject, known), f"{effect}"
        try:
            if isinstance(effect, Replace):
                broker.disk.replace(effect.path, effect.data)
            else:
                broker.disk.sync(effect.file)
        except StorageError as error:
            if isinstance(subject, LogFlush):
                broker.replicas.on_flush_failed(subject, str(error), self.now)
            return
        if isinstance(subject, LogFlush):
            broker.replicas.on_flushed(subject, self.now)
        elif subject is not None:
            broker.replicas.on_checkpointed(subject, self.now)

    # Messages ---------------------------------------------------------------------------------

    def _carry_out(self, broker: Broker, output: Output) -> None:
        match output:
            case SendFetch() | SendListOffsets():
                self._send(broker, output)
            case SendAlterPartition():
                self._propose(broker, output)
            case Reply(Call() as call, FetchResponse() as response):
                self._answer_follower(broker, call, response)
            case Reply(str() as name, response):
                self.replies[name] = list(response.partitions)
            case LogDirFailed(topic_partition, error):
                self.lines.append(f"b{broker.node_id} {topic_partition} log dir failed: {error}")
            case RoleChanged():
                pass

    def _send(self, sender: Broker, sent: Sent) -> None:
        call = Call(sender.node_id, sender.incarnation, sent)
        self._calls[call.key] = call
        link = (sender.node_id, sent.leader_id)
        if link in self.cut or not self.brokers[sent.leader_id].running:
            self.later(LINK_MS, lambda: self.answer(call, None))
        else:
            self._travel(link, lambda: self._arrive(call))

    def _travel(self, link: tuple[int, int], action: Callable[[], None]) -> None:
        if link in self.held:
            self._kept_back.append((link, action))
        else:
            self.later(LINK_MS, action)

    def release(self, sender: int, receiver: int) -> None:
        """Delivers what was kept back on a link, and keeps nothing back any more."""
        self.held.discard((sender, receiver))
        kept = self._kept_back
        self._kept_back = []
        for link, action in kept:
            self._travel(link, action)

    def _arrive(self, call: "Call") -> None:
        leader = self.brokers[call.sent.leader_id]
        if call.key not in self._calls:
            return
        if not leader.running or (call.sender, leader.node_id) in self.cut:
            self.answer(call, None)
        elif isinstance(call.sent, SendListOffsets):
            results = leader.replicas.list_offsets(
                call.sent.queries, replica_id=call.sender, isolation_level=0
            )
            self._travel((leader.node_id, call.sender), lambda: self.answer(call, results))
        else:
            self._fetch_as_follower(leader, call, call.sent.request)

    def _fetch_as_follower(self, leader: Broker, call: "Call", request: FetchRequest) -> None:
        try:
            call.session, wanted = leader.sessions.open(request, True, self.now)
        except ProtocolError as error:
            self._answer_follower(leader, call, FetchResponse(0, error.code, 0, []))
            return
        leader.replicas.fetch(request._replace(partitions=wanted), call, self.now)

    def _answer_follower(self, leader: Broker, call: "Call", response: FetchResponse) -> None:
        assert isinstance(call.sent, SendFetch), f"{call.sent} answered with {response}"
        full = call.sent.request.session_epoch <= 0
        response = leader.sessions.close(response, call.session, full)
        response = response._replace(partitions=[in_transit(part) for part in response.partitions])
        self._travel((leader.node_id, call.sender), lambda: self.answer(call, response))

    def call_of(self, sender: int) -> "Call":
        """The request that a broker has under way."""
        (call,) = (call for call in self._calls.values() if call.sender == sender)
        return call

    def call_between(self, sender: int, leader: int) -> Call:
        """The newest request from one broker to another."""
        *_, call = (
            call
            for call in self._calls.values()
            if call.sender == sender and call.sent.leader_id == leader
        )
        return call

    def answer(self, call: "Call", answer: FetchResponse | list[ListOffsetsResult] | None) -> None:
        """Delivers an answer, unless there was one already; `None` is a broken connection."""
        sender = self.brokers[call.sender]
        if self._calls.pop(call.key, None) is None:
            return
        if not sender.running or sender.incarnation != call.incarnation:
            return
        if answer is not None and (call.sent.leader_id, call.sender) in self.cut:
            answer = None
        if isinstance(call.sent, SendFetch):
            assert answer is None or isinstance(answer, FetchResponse), f"{answer}"
            sender.replicas.on_fetch_response(call.sent.token, answer, self.now)
        else:
            assert answer is None or isinstance(answer, list), f"{answer}"
            sender.replicas.on_list_offsets_response(call.sent.token, answer, self.now)

    def _propose(self, sender: Broker, request: SendAlterPartition) -> None:
        incarnation = sender.incarnation

        def arrive() -> None:
            self.proposals.append(request)
            results: list[AlterPartitionResult] | ErrorCode | None = None
            if self.controller == "silent":
                return
            if self.controller in ("decides", "decides-unheard"):
                results = self.feed.decide(sender.node_id, request)
            if self.controller == "decides-unheard":
                results = None
            elif self.controller == "decides":
                pass
            elif self.controller != "unreachable":
                results = [
                    AlterPartitionResult(
                        proposal.topic_id,
                        proposal.topic_partition.partition,
                        ErrorCode[self.controller],
                    )
                    for proposal in request.proposals
                ]
            self.later(LINK_MS, lambda: answer(results))

        def answer(results: list[AlterPartitionResult] | ErrorCode | None) -> None:
            if sender.running and sender.incarnation == incarnation:
                sender.replicas.on_alter_partition_response(request.token, results, self.now)

        self.later(LINK_MS, arrive)

    # Clients ----------------------------------------------------------------------------------

    def produce(
        self,
        node: int,
        values: Iterable[bytes],
        *,
        topic: str = "orders",
        partition: int = 0,
        acks: int = -1,
        timeout_ms: int = 60_000,
        producer: Producer = ANYBODY,
    ) -> str:
        """Sends one batch; returns the name under which the reply will be found."""
        name = f"p{next(self._names)}"
        records = build_batch(
            [Record(1000, None, value) for value in values],
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=producer.sequence,
            is_transactional=producer.is_transactional,
        )
        wanted = ProducePartition(topic, self._topic_id(topic), partition, memoryview(records))
        request = ProduceRequest(None, acks, timeout_ms, [wanted])
        self.brokers[node].replicas.produce(request, name, self.now, 1_000_000)
        return name

    def fetch(
        self,
        node: int,
        offset: int,
        *,
        topic: str = "orders",
        partition: int = 0,
        isolation_level: int = 0,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        rack_id: str = "",
        forged_replica: tuple[int, int] = (-1, -1),
    ) -> str:
        """A consumer's fetch, or that of a client that claims to be a replica of some broker epoch;
        returns the name under which the reply will be found."""
        name = f"f{next(self._names)}"
        topic_id = self._topic_id(topic)
        wanted = FetchPartition(topic, topic_id, partition, -1, offset, -1, -1, 1 << 20)
        replica_id, replica_epoch = forged_replica
        request = FetchRequest(
            replica_id,
            replica_epoch,
            max_wait_ms,
            min_bytes,
            1 << 20,
            isolation_level,
            0,
            -1,
            [wanted],
            [],
            rack_id,
        )
        self.brokers[node].replicas.fetch(request, name, self.now, listener=LISTENER)
        return name

    def _topic_id(self, topic: str) -> TopicId:
        return self.feed.image.topics_by_name[topic].topic_id


def in_transit(part: FetchedPartition) -> FetchedPartition:
    """The answer as it arrives: one buffer, whatever it was read from."""
    data = joined(part.records)
    assert len(data) == part.records_bytes, f"{len(data)} bytes, {part.records_bytes} announced"
    return part._replace(records=[data] if data else [])
