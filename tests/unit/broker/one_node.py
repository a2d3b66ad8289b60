"""A cluster of one: a whole `Node` on a memory disk, driven by hand.

    node = OneNode()
    wire = node.client()                          # a connection to the broker listener
    response = wire.call(ApiKey.METADATA, 12, topics=None)

Everything behind the wire is the real thing: quorum, controller, replicas and log. Time stands
still unless a test or a waiting client moves it.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any

from tidelog.broker.api import k62_broker_registration, k63_broker_heartbeat
from tidelog.broker.context import Broker
from tidelog.broker.features import FEATURES
from tidelog.broker.node import Node
from tidelog.config import parse_node_config
from tidelog.controller.messages import BrokerHeartbeat, FeatureRange, RegisterBroker
from tidelog.env.disk import FileSlice
from tidelog.env.effects import (
    CheckStores,
    Close,
    Closed,
    CloseReason,
    Compute,
    Computed,
    Connect,
    Connected,
    Effect,
    Exit,
    Flush,
    Flushed,
    FlushFailed,
    Input,
    OnDisk,
    Opened,
    Received,
    RefreshKeys,
    Replace,
    Send,
    UseStores,
    no_rest,
)
from tidelog.env.instant import Instant
from tidelog.env.memory_disk import MemoryDisk
from tidelog.env.trace import Level, TraceList
from tidelog.errors import ErrorCode, StorageError
from tidelog.log.identity import format_directory
from tidelog.model import Endpoint, Uuid
from tidelog.sim.engine.driver import hand_over
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make
from tidelog.wire.frames import FrameReader
from tidelog.wire.values import error_of, millis

BROKER = "PLAINTEXT"
CONTROLLER = "CONTROLLER"
CLUSTER_ID = "b25lLW5vZGUtY2x1c3Rlcg"
DIRECTORY_ID = Uuid(b"d" * 16)
WALL_MS = 1_700_000_000_000

SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://host1:9092,CONTROLLER://host1:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "controller.quorum.voters": "1@host1:9093",
    "log.dirs": "data",
}


class OneNode:
    """The driver of one node."""

    def __init__(
        self,
        *,
        disk: MemoryDisk | None = None,
        more_disks: Sequence[MemoryDisk] = (),
        alone: bool = True,
        reaches_itself: bool = False,
        seed: int = 7,
        trace_level: Level = Level.INFO,
        **settings: str,
    ) -> None:
        """Starts the node and unfences it if it is `alone`; else the test acts for other voters.
        The node `reaches_itself`, or the test acts for its other end. Another process on a disk
        needs another `seed`, unless the last one has ended cleanly."""
        given = {name.replace("_", "."): value for name, value in settings.items()}
        config = parse_node_config(SETTINGS | given)
        self.disk = disk or MemoryDisk(root="host1")
        if disk is None:
            format_directory(self.disk, cluster_id=CLUSTER_ID, node_id=1, directory_id=DIRECTORY_ID)
        # The first is `disk`.
        self.disks: list[MemoryDisk] = [self.disk, *more_disks]
        self.trace = TraceList()
        self.now = Instant(1000)
        self.node = Node(
            config,
            self.disks,
            seed,
            self.trace,
            now=self.now,
            wall_ms=WALL_MS,
            trace_level=trace_level,
        )
        # What was not carried out here but matters to a test.
        self.closed: list[int] = []
        self.exits: list[Exit] = []
        self.connects: list[Connect] = []
        self.refreshes: list[str] = []
        self.stores: list[CheckStores | UseStores] = []
        self.computes: list[Compute] = []
        # Whether a test says when that is done (`compute`).
        self.computes_later = False
        self.sent: dict[int, bytearray] = defaultdict(bytearray)
        self._reaches_itself = reaches_itself
        # The node's connections to itself: each end to the other one.
        self._loops: dict[int, int] = {}
        self._next_connection = 1
        if alone:
            self.run_until(lambda: self.broker.image.is_alive(1))
        else:
            self.settle()

    @property
    def broker(self) -> Broker:
        """What the handlers see."""
        return self.node.broker

    def receive(self, event: Input) -> None:
        """One input and the tick behind it, with everything that the disk answers."""
        hand_over(self.node, event, self.now)
        self.settle()

    def settle(self) -> None:
        """Ticks at this instant until the node wants nothing more of it."""
        for _ in range(1000):
            self.node.wake(self.now)
            effects = self.node.take_effects()
            self.node.check()
            for effect in effects:
                self.carry_out(effect)
            deadline = self.node.deadline()
            if not effects and (deadline is None or deadline > self.now):
                return
        raise AssertionError("the node does not come to rest")

    def carry_out(self, effect: Effect) -> None:
        """Does what the node wants of its driver."""
        match effect:
            case Send(connection_id, chunks):
                for chunk in chunks:
                    if isinstance(chunk, FileSlice):
                        chunk = chunk.file.read(chunk.position, chunk.length)
                    self.sent[connection_id] += chunk
                if connection_id in self._loops:
                    data = bytes(self.sent.pop(connection_id))
                    hand_over(self.node, Received(self._loops[connection_id], data), self.now)
            case Connect(connection_id, "host1", 9092, _) if self._reaches_itself:
                self._loop(connection_id)
            case Connect():
                self.connects.append(effect)
            case Close(connection_id):
                self.closed.append(connection_id)
                if connection_id in self._loops:
                    self.node.receive(
                        Closed(self._loops.pop(connection_id), CloseReason.PEER), self.now
                    )
            case Flush() | Replace():
                self._make_durable(0, effect)
            case OnDisk(number, work):
                self._make_durable(number, work)
            case CheckStores() | UseStores():
                self.stores.append(effect)
            case RefreshKeys(url):
                self.refreshes.append(url)
            case Compute():
                self.computes.append(effect)
                if not self.computes_later:
                    self.compute()
            case Exit():
                self.exits.append(effect)

    def compute(self, spent_ns: int = 0) -> None:
        """Does what is to be done beside the loop; the tick behind it is the caller's."""
        effect = self.computes.pop(0)
        self.node.receive(Computed(effect.subject, effect.function(no_rest), spent_ns), self.now)

    def _make_durable(self, number: int, work: Flush | Replace) -> None:
        disk = self.disks[number]
        try:
            if isinstance(work, Flush):
                disk.sync(work.file)
            else:
                disk.replace(work.path, work.data)
        except StorageError as error:
            self.node.receive(FlushFailed(work.subject, str(error), number), self.now)
        else:
            if work.subject is not None:
                self.node.receive(Flushed(work.subject), self.now)

    def _loop(self, connection_id: int) -> None:
        """The node connects to its own listener."""
        accepted = self._next_connection
        self._next_connection += 1
        self._loops |= {connection_id: accepted, accepted: connection_id}
        self.node.receive(Opened(accepted, BROKER, "host1"), self.now)
        self.node.receive(Connected(connection_id), self.now)

    def advance(self, duration_ms: int) -> None:
        """Lets time pass, stopping at every deadline on the way."""
        end = self.now + duration_ms
        while True:
            deadline = self.node.deadline()
            if deadline is None or deadline > end:
                break
            self.now = Instant(max(self.now, deadline))
            self.settle()
        self.now = Instant(end)
        self.settle()

    def run_until(self, condition: Any, limit_ms: int = 60_000) -> None:
        """Lets time pass until the condition holds."""
        end = self.now + limit_ms
        self.settle()
        while not condition():
            deadline = self.node.deadline()
            assert deadline is not None and deadline <= end, f"not reached: {self.trace.events}"
            self.now = Instant(max(self.now, deadline))
            self.settle()

    def run_until_exit(self) -> None:
        """Lets time pass until the node is done."""
        while not self.exits:
            deadline = self.node.deadline()
            assert deadline is not None, "the node neither ends nor wants anything"
            self.now = Instant(max(self.now, deadline))
            self.settle()

    def add_broker(self, node_id: int, *, fenced: bool = False) -> int:
        """Registers another broker, which exists only in the metadata; its broker epoch."""
        wire = self.client(CONTROLLER)
        registration = RegisterBroker(
            broker_id=node_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=Uuid(bytes((node_id,)) * 16),
            endpoints=(Endpoint(BROKER, f"host{node_id}", 9092),),
            rack=f"rack{node_id}",
            features={name: FeatureRange(*levels) for name, levels in FEATURES.items()},
            log_dirs=(Uuid(bytes((node_id,)) * 15 + b"d"),),
        )
        entity = k62_broker_registration.API.request(registration)
        frame = wire.ask(ApiKey.BROKER_REGISTRATION, entity)
        _, answer = codec.decode_response(ApiKey.BROKER_REGISTRATION, 4, frame or b"")
        assert error_of(answer.error_code) is ErrorCode.NONE, answer
        if not fenced:
            heartbeat = BrokerHeartbeat(
                node_id, answer.broker_epoch, self.broker.image.offset, False, False
            )
            wire.ask(ApiKey.BROKER_HEARTBEAT, k63_broker_heartbeat.API.request(heartbeat))
            assert self.broker.image.is_alive(node_id)
        epoch: int = answer.broker_epoch
        return epoch

    def client(self, listener: str = BROKER, host: str = "peer") -> "Wire":
        """A new connection to a listener, from an address."""
        connection_id = self._next_connection
        self._next_connection += 1
        self.receive(Opened(connection_id, listener, host))
        return Wire(self, connection_id)


class Wire:
    """One accepted connection, seen from the other end."""

    def __init__(self, node: OneNode, connection_id: int) -> None:
        self.node = node
        self.connection_id = connection_id
        self._frames = FrameReader()
        self._arrived: deque[bytes] = deque()
        self._correlation_id = 0

    @property
    def closed(self) -> bool:
        """Whether the node closed it."""
        return self.connection_id in self.node.closed

    def send(self, frame: bytes) -> None:
        """Raw bytes, length prefix included."""
        self.node.receive(Received(self.connection_id, frame))

    def frames(self) -> list[bytes]:
        """All response frames that have not been taken yet."""
        sent = self.node.sent[self.connection_id]
        self._arrived.extend(bytes(frame) for frame in self._frames.feed(bytes(sent)))
        sent.clear()
        taken = list(self._arrived)
        self._arrived.clear()
        return taken

    def ask(self, key: ApiKey, entity: Any, client_id: str | None = "test") -> bytes | None:
        """Sends a request entity; the response frame, or `None` when the node closed instead."""
        self._correlation_id += 1
        self.send(codec.encode_request(entity, self._correlation_id, client_id))
        found = self.frames()
        for _ in range(100):
            if found or self.closed:
                break
            self.node.advance(10)
            found = self.frames()
        assert len(found) <= 1, f"{len(found)} responses to one request"
        return found[0] if found else None

    def call(self, key: ApiKey, version: int, /, **values: Any) -> Any:
        """One request of this version from the values that it has; the response entity."""
        frame = self.ask(key, make(codec.request_class(key, version), **values))
        assert frame is not None, f"{key.name} {version}: no response"
        correlation_id, entity = codec.decode_response(key, version, frame)
        assert correlation_id == self._correlation_id
        return entity

    def create_topic(
        self, name: str, partitions: int = 1, *, replicas: tuple[int, ...] = (), **configs: str
    ) -> None:
        """A topic with one replica, or with one partition on these replicas."""
        topic = {
            "name": name,
            "num_partitions": -1 if replicas else partitions,
            "replication_factor": -1 if replicas else 1,
            "assignments": [{"partition_index": 0, "broker_ids": replicas}] if replicas else [],
            "configs": [{"name": k.replace("_", "."), "value": v} for k, v in configs.items()],
        }
        response = self.call(
            ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=millis(30_000), validate_only=False
        )
        code = error_of(response.topics[0].error_code)
        assert code is ErrorCode.NONE, response.topics[0].error_message


def coordinating(topic: str, find: Callable[[Wire], Any], settings: dict[str, Any]) -> OneNode:
    """A node with topic `t` of two partitions, and with the internal topic that looking for a
    coordinator (`find`) makes."""
    node = OneNode(reaches_itself=True, **settings)
    wire = node.client()
    wire.create_topic("t", 2)
    find(wire)
    node.run_until(lambda: topic in node.broker.image.topics_by_name)
    node.run_until(lambda: error_of(find(wire).error_code) is ErrorCode.NONE)
    return node
