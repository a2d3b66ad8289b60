"""The replication of a few brokers in virtual time: real logs on memory disks, real fetch sessions,
and a network of links that take one millisecond.

Nothing happens by itself: `run` moves time. Events of one instant run in the order in which they
came up, so a run repeats exactly.
"""

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, NamedTuple

from tidelog.config import ReplicationConfig
from tidelog.env.effects import Flush, Replace
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode, StorageError
from tidelog.log.checkpoint import CleanShutdown
from tidelog.log.cleaning.swap import CleanedFlush
from tidelog.log.identity import format_directory
from tidelog.log.values import LogFlush
from tidelog.model import TopicId, Uuid
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.replication import messages
from tidelog.replication.moves import MoveFlush
from tidelog.replication.replicas import Checkpointed
from tidelog.sim.engine.disk import SimDisk
from tidelog.sim.engine.timeline import Timeline
from tidelog.sim.replicas.broker import Broker
from tidelog.sim.replicas.feed import LISTENER, MetadataFeed, refused
from tidelog.sim.replicas.links import LINK_MS, Call, Links
from tidelog.wire.fetch import FetchPartition, FetchRequest, FetchResponse
from tidelog.wire.produce import ProducePartition, ProduceRequest

CONFIG = ReplicationConfig(
    replica_lag_time_max_ms=1000,
    replica_fetch_wait_max_ms=100,
    replica_fetch_backoff_ms=200,
    high_watermark_checkpoint_interval_ms=500,
    recovery_point_checkpoint_interval_ms=5000,
    retention_check_interval_ms=3000,
    cleaner_backoff_ms=1000,
)


class Producer(NamedTuple):
    """Who sends a batch, and which of his batches it is."""

    producer_id: int = -1
    epoch: int = -1
    sequence: int = -1
    is_transactional: bool = False


NO_PRODUCER_ID = Producer()


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
        # Answers of the controller: the feed decides, or decides and the answer is lost, or none
        # comes, or a fixed code.
        self.controller: str = "decides"
        self.links = Links(self.timeline, self.brokers)
        # Links that refuse messages, and links that keep them back, as (sender, receiver).
        self.cut, self.held = self.links.cut, self.links.held
        # Replies to produce requests and consumer fetches, by the name of the request.
        self.replies: dict[str, list[Any]] = {}
        # Called with a broker whenever something happened to it.
        self.observers: list[Callable[[Broker], None]] = []
        # Every AlterPartition request that arrived.
        self.proposals: list[messages.SendAlterPartition] = []
        self._names = count(1)
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
        """The process ends; what it wrote stays, flushed or not. Calls to it fail."""
        self.brokers[node].running = False
        self.links.on_process_ended(node)

    def stop(self, node: int) -> None:
        """A clean stop: everything is flushed, and the marker is written."""
        broker = self.brokers[node]
        broker.directory.close_cleanly(CleanShutdown(broker.replicas.broker_epoch))
        for effect in broker.effects.take():
            assert isinstance(effect, Flush | Replace), f"{effect}"
            _write(broker, effect)
        self.kill(node)

    def cut_power(self, node: int) -> None:
        """The process ends, and what was not flushed is lost."""
        self.kill(node)
        self.brokers[node].disk.crash()

    # Time -------------------------------------------------------------------------------------

    @property
    def now(self) -> Instant:
        """The time of all brokers."""
        return self.timeline.now

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
        broker.sessions.check()
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
        known = LogFlush | CleanedFlush | MoveFlush | Checkpointed
        assert subject is None or isinstance(subject, known), f"{effect}"
        try:
            _write(broker, effect)
        except StorageError as error:
            if isinstance(subject, LogFlush | CleanedFlush):
                broker.replicas.on_flush_failed(subject, str(error), self.now)
            return
        if isinstance(subject, LogFlush | CleanedFlush | MoveFlush):
            broker.replicas.on_flushed(subject, self.now)
        elif subject is not None:
            broker.replicas.on_checkpointed(subject, self.now)

    # Messages ---------------------------------------------------------------------------------

    def _carry_out(self, broker: Broker, output: messages.Output) -> None:
        match output:
            case messages.SendFetch() | messages.SendListOffsets():
                self.links.send(broker, output)
            case messages.SendAlterPartition():
                self._propose(broker, output)
            case messages.Reply(Call() as call, FetchResponse() as response):
                self.links.answer_follower(broker, call, response)
            case messages.Reply(str() as name, response):
                self.replies[name] = list(response.partitions)
            case messages.LogDirFailed(topic_partition, error):
                self.lines.append(f"b{broker.node_id} {topic_partition} log dir failed: {error}")

    def release(self, sender: int, receiver: int) -> None:
        """Delivers what was kept back on a link, and keeps nothing back any more."""
        self.links.release(sender, receiver)

    def _propose(self, sender: Broker, request: messages.SendAlterPartition) -> None:
        incarnation = sender.incarnation

        def arrive() -> None:
            self.proposals.append(request)
            results: list[messages.IsrResult] | None = None
            match self.controller:
                case "silent":
                    return
                case "decides":
                    results = self.feed.decide(sender.node_id, request)
                case "decides-unheard":
                    self.feed.decide(sender.node_id, request)
                case "unreachable":
                    pass
                case code:
                    results = refused(request, ErrorCode[code])
            self.timeline.at(LINK_MS, lambda: answer(results))

        def answer(results: list[messages.IsrResult] | None) -> None:
            if sender.running and sender.incarnation == incarnation:
                sender.replicas.on_alter_partition_response(request.token, results, self.now)

        self.timeline.at(LINK_MS, arrive)

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
        producer: Producer = NO_PRODUCER_ID,
        key: bytes | None = None,
    ) -> str:
        """Sends one batch, whose records have one key or none; returns the name under which the
        reply will be found."""
        name = f"p{next(self._names)}"
        records = build_batch(
            [Record(1000, key, value) for value in values],
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
        wanted = FetchPartition(
            topic, self._topic_id(topic), partition, -1, offset, -1, -1, 1 << 20
        )
        bounds = (max_wait_ms, min_bytes, 1 << 20, isolation_level)
        request = FetchRequest(*forged_replica, *bounds, 0, -1, [wanted], [], rack_id)
        self.brokers[node].replicas.fetch(request, name, self.now, listener=LISTENER)
        return name

    def _topic_id(self, topic: str) -> TopicId:
        return self.feed.image.topics_by_name[topic].topic_id


def _write(broker: Broker, effect: Flush | Replace) -> None:
    if isinstance(effect, Replace):
        broker.disk.replace(effect.path, effect.data)
    else:
        broker.disk.sync(effect.file)
