"""A simulated client: one connection, requests one after the other, answers as entities.

It speaks the wire. It is for scenarios and tests, which drive the world until an answer is there.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from tidelog.model import ZERO_TOPIC_ID, TopicId
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.sim.engine.client_machine import BROKER_LISTENER, Session
from tidelog.sim.engine.formation import WALL_START_MS
from tidelog.sim.engine.world import World
from tidelog.wire import codec
from tidelog.wire import fetch as wire_fetch
from tidelog.wire import produce as wire_produce
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make
from tidelog.wire.fetch import FetchPartition, FetchRequest, FetchResponse
from tidelog.wire.produce import ProducePartition, ProduceRequest, ProduceResponse
from tidelog.wire.values import millis

NAME: Final = "sim"
PRODUCE_VERSION: Final = 9
FETCH_VERSION: Final = 12
FETCH_VERSION_WITH_EPOCHS: Final = 15


class Disconnected(Exception):
    """The connection is gone, or could not be made."""


class SimClient:
    """A client of one listener of one node."""

    def __init__(self, world: World, node_id: int, listener: str = BROKER_LISTENER) -> None:
        self.world = world
        self.node_id = node_id
        self.session = Session(world.clients, world.hosts[node_id], listener=listener)
        # Responses that are not taken yet; `None` for each that never came.
        self._responses: deque[bytes | None] = deque()

    @property
    def closed(self) -> bool:
        """Whether the connection is gone."""
        return self.session.closed

    @property
    def waiting(self) -> int:
        """How many responses have come that are not taken yet."""
        return len(self._responses)

    def send_frame(self, frame: bytes, limit_ms: int = 60_000) -> None:
        """Sends a framed request without waiting for the answer. Raises `Disconnected`."""
        self.world.run_until(lambda: self.session.connected or self.closed, limit_ms)
        if self.closed:
            raise Disconnected(f"node {self.node_id}")
        self.session.request(frame, self._responses.append)

    def take_frame(self, limit_ms: int = 60_000) -> bytes:
        """Waits for the next response frame. Raises `Disconnected`."""
        self.world.run_until(lambda: bool(self._responses) or self.closed, limit_ms)
        frame = self._responses.popleft() if self._responses else None
        if frame is None:
            raise Disconnected(f"node {self.node_id}")
        return frame

    def call(self, api_key: ApiKey, version: int, **values: Any) -> Any:
        """One request and its response entity; dicts for nested entities."""
        entity = make(codec.request_class(api_key, version), **values)
        self.send_frame(codec.encode_request(entity, self.session.correlation_id, NAME))
        _, response = codec.decode_response(api_key, version, self.take_frame())
        return response

    def create_topic(
        self, name: str, partitions: int = 1, replication_factor: int = 3, **configs: str
    ) -> int:
        """Creates a topic; returns the error code. Config names with `_` for `.`."""
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": replication_factor,
            "assignments": [],
            "configs": [{"name": k.replace("_", "."), "value": v} for k, v in configs.items()],
        }
        response = self.call(
            ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=millis(10_000), validate_only=False
        )
        code: int = response.topics[0].error_code.value
        return code

    def send_produce(
        self, topic: str, partition: int, values: Sequence[bytes], acks: int = -1, **batch: Any
    ) -> None:
        """Sends one batch; the answer is taken by `take_produced`."""
        timestamp = WALL_START_MS + self.world.now
        records = build_batch([Record(timestamp, None, value, ()) for value in values], **batch)
        request = ProduceRequest(
            None,
            acks,
            30_000,
            [ProducePartition(topic, ZERO_TOPIC_ID, partition, memoryview(records))],
        )
        number = self.session.correlation_id
        self.send_frame(wire_produce.pack_request(PRODUCE_VERSION, number, NAME, request))

    def take_produced(self) -> ProduceResponse:
        """The answer to the oldest unanswered produce."""
        _, response = wire_produce.parse_response(PRODUCE_VERSION, self.take_frame())
        return response

    def produce(
        self, topic: str, partition: int, values: Sequence[bytes], acks: int = -1, **batch: Any
    ) -> ProduceResponse:
        """One batch and its answer."""
        self.send_produce(topic, partition, values, acks, **batch)
        return self.take_produced()

    def fetch(self, topic: str, partition: int, offset: int, max_wait_ms: int = 0) -> FetchResponse:
        """What a consumer sees from `offset` on."""
        wanted = FetchPartition(topic, ZERO_TOPIC_ID, partition, -1, offset, -1, -1, 1 << 20)
        return self._fetch(FETCH_VERSION, (-1, -1), wanted, max_wait_ms)

    def fetch_as(
        self, replica: tuple[int, int], topic_id: TopicId, partition: int, offset: int
    ) -> FetchResponse:
        """A fetch in the name of a replica, (broker, broker epoch), as a forger sends it."""
        wanted = FetchPartition("", topic_id, partition, -1, offset, -1, -1, 1 << 20)
        return self._fetch(FETCH_VERSION_WITH_EPOCHS, replica, wanted)

    def _fetch(
        self, version: int, replica: tuple[int, int], wanted: FetchPartition, max_wait_ms: int = 0
    ) -> FetchResponse:
        request = FetchRequest(*replica, max_wait_ms, 1, 1 << 20, 0, 0, -1, [wanted], [])
        number = self.session.correlation_id
        self.send_frame(wire_fetch.pack_request(version, number, NAME, request))
        _, response = wire_fetch.parse_response(version, self.take_frame())
        return response
