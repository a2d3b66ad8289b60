"""The test double of brokers: they answer as a test wants, over real TCP and the real codecs.

`ScriptedBrokers` answers each API from a table. `ScriptedCluster` has partitions with batches, and
misbehaves as its fields say. A response is given as a dict of its fields, whatever the version that
was asked in; what a test does not care about is filled in. Every connection is a thread; all share
one state.
"""

import socketserver
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from tests.served import BROKER_APIS
from tidelog.client.core.partitions import by_topic
from tidelog.client.core.values import EARLIEST, LATEST, Address
from tidelog.errors import ErrorCode
from tidelog.model import TopicId, TopicPartition
from tidelog.records.batch import decode_batch, iter_headers
from tidelog.wire import codec, fetch, produce
from tidelog.wire.api import ApiKey, RequestHeader, parse_header
from tidelog.wire.entities import make
from tidelog.wire.values import error, millis, uuid_of

TOPIC_ID = TopicId(bytes(range(16)))

Answer = Callable[[Any], Any]
"""From a request to a response, bytes to send as they are, or `None` to hang up. Both are version-
free values for Fetch and Produce; else the request is an entity, the response a dict."""

_UNSAID: Mapping[str, Any] = {
    "throttle_time": millis(0),
    "error_code": error(0),
    "error_message": None,
    "rack": None,
    "is_internal": False,
    "topic_authorized_operations": 0,
    "cluster_authorized_operations": 0,
}
"""Fields of responses that a test need not give."""


class ScriptedBrokers:
    """Some brokers on free ports of this machine, until the `with` block ends. An answer to
    ApiVersions has what is to stand beside the API keys."""

    def __init__(self, answers: Mapping[ApiKey, Answer] | None = None, nodes: int = 1) -> None:
        # How each API is answered; without an answer the broker hangs up.
        self.answers = {} if answers is None else answers
        # What was asked, in this order, ApiVersions aside.
        self.requests: list[Any] = []
        self.asked: list[ApiKey] = []
        # API key -> newest version served.
        self.served = {key: versions.max_version for key, versions in BROKER_APIS.items()}
        self._servers = {node: _server(self, node) for node in range(1, nodes + 1)}
        for server in self._servers.values():
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers.values():
            server.shutdown()
            server.server_close()

    @property
    def addresses(self) -> list[Address]:
        """Every broker's address."""
        return [Address(*server.server_address) for server in self._servers.values()]

    @property
    def port(self) -> int:
        """The port of the first broker."""
        return self.addresses[0].port

    @property
    def bootstrap_servers(self) -> str:
        """The same as clients are configured with it."""
        return ",".join(map(str, self.addresses))

    def respond(self, node: int, key: ApiKey, request: Any) -> Any:
        """The response of a broker; see `Answer`."""
        answer = self.answers.get(key)
        return None if answer is None else answer(request)

    def frame(self, node: int, header: RequestHeader, frame: bytes, body: int) -> bytes | None:
        """The bytes of the response to a frame; `None` hangs up."""
        key, version = header.api_key, header.api_version
        if key is ApiKey.API_VERSIONS:
            rows = [
                {"api_key": k, "min_version": 0, "max_version": v} for k, v in self.served.items()
            ]
            return _encoded(header, {"api_keys": rows, **(self.respond(node, key, None) or {})})
        if key is ApiKey.FETCH:
            request: Any = fetch.parse_request(version, frame, body)
        elif key is ApiKey.PRODUCE:
            request = produce.parse_request(version, frame, body)
        else:
            request = codec.decode_request(header, frame, body)
        self.asked.append(key)
        self.requests.append(request)
        response = self.respond(node, key, request)
        match response:
            case fetch.FetchResponse():
                packed: Any = fetch.pack_response(version, header.correlation_id, response)
                return b"".join(map(bytes, packed))
            case produce.ProduceResponse():
                return produce.pack_response(version, header.correlation_id, response)
            case dict():
                return _encoded(header, response)
        return response


def _encoded(header: RequestHeader, response: dict[str, Any]) -> bytes:
    kind = codec.response_class(header.api_key, header.api_version)
    return codec.encode_response(header, make(kind, **_completed(response)))


def _completed(value: Any) -> Any:
    match value:
        case dict():
            return {**_UNSAID, **{name: _completed(item) for name, item in value.items()}}
        case list():
            return [_completed(item) for item in value]
        case ErrorCode():
            return error(value)
    return value


@dataclass
class ScriptedPartition:
    """What one partition holds and how it behaves."""

    batches: list[bytes]
    leader: int = 1
    epoch: int = 0
    log_start: int = 0
    max_batches_per_fetch: int = 1000
    fetches: list[tuple[int, int]] = field(default_factory=list)
    """(node, offset) of every fetch that arrived."""
    on_fetch: Callable[[int, int], ErrorCode | str | None] = lambda node, offset: None
    """Called with (node, offset): an error to answer, "close" to hang up, or `None`."""
    on_list_offsets: Callable[[], ErrorCode] = lambda: ErrorCode.NONE
    topic_id: TopicId = TOPIC_ID
    last_stable_offset: int | None = None
    """The high watermark, unless a transaction is open."""
    aborted: list[tuple[int, int]] = field(default_factory=list)
    """(producer, first offset), as `read_committed` fetches are answered."""
    racks: dict[str, int] = field(default_factory=dict)
    """Which replica the leader names to a reader of a rack."""

    @property
    def high_watermark(self) -> int:
        """The end of the last batch."""
        last = self.log_start - 1
        for batch in self.batches:
            for _, header in iter_headers(batch):
                last = header.last_offset
        return last + 1

    def end_for(self, isolation_level: int) -> int:
        """What a reader may see, exclusive."""
        if isolation_level == fetch.READ_COMMITTED and self.last_stable_offset is not None:
            return self.last_stable_offset
        return self.high_watermark

    def first_at(self, timestamp: int) -> tuple[int, int]:
        """Offset and timestamp of the first record that is not older; -1 for none."""
        for batch in self.batches:
            for record in decode_batch(batch):
                if record.timestamp >= timestamp:
                    return record.offset, record.timestamp
        return -1, -1


class ScriptedCluster(ScriptedBrokers):
    """Brokers that hold partitions. What they do not do by themselves is in `answers`."""

    def __init__(self, partitions: dict[TopicPartition, ScriptedPartition], nodes: int = 2) -> None:
        super().__init__({}, nodes)
        self.partitions = partitions
        self.cleanup_policy = "delete"
        self.served = self.served | {
            ApiKey.FETCH: 16,
            ApiKey.LIST_OFFSETS: 8,
            ApiKey.FIND_COORDINATOR: 4,
            ApiKey.OFFSET_COMMIT: 8,
        }
        # What was committed to each consumer group, and what to answer instead of NONE.
        self.committed: dict[str, dict[TopicPartition, int]] = {}
        self.on_commit: Callable[[], ErrorCode] = lambda: ErrorCode.NONE
        self.on_metadata: Callable[[], None] = lambda: None

    def respond(self, node: int, key: ApiKey, request: Any) -> Any:
        """The response of a broker."""
        match key:
            case ApiKey.FETCH:
                return self._fetch(node, request)
            case ApiKey.METADATA:
                return self._metadata(request)
            case ApiKey.LIST_OFFSETS:
                return self._by_topic(request, self._list_offsets)
            case ApiKey.DESCRIBE_CONFIGS:
                return {"results": [self._configs(wanted) for wanted in request.resources]}
            case ApiKey.FIND_COORDINATOR:
                host, port = self.addresses[-1]
                place = {"node_id": len(self.addresses), "host": host, "port": port}
                return {"coordinators": [{"key": k, **place} for k in request.coordinator_keys]}
            case ApiKey.OFFSET_COMMIT:
                code = self.on_commit()
                return self._by_topic(request, lambda _, *row: self._commit(request, code, *row))
        return super().respond(node, key, request)

    @staticmethod
    def _by_topic(request: Any, answer: Callable[..., Mapping[str, Any]]) -> Any:
        """A response that names partitions as its request does."""
        rows = {
            TopicPartition(topic.name, row.partition_index): answer(
                request, TopicPartition(topic.name, row.partition_index), row
            )
            for topic in request.topics
            for row in topic.partitions
        }
        return {"topics": by_topic(rows)}

    def _metadata(self, request: Any) -> Any:
        self.on_metadata()
        names = sorted({tp.topic for tp in self.partitions})
        if request.topics is not None:
            names = [wanted.name for wanted in request.topics]
        return {
            "brokers": [
                {"node_id": node, "host": host, "port": port}
                for node, (host, port) in zip(self._servers, self.addresses, strict=True)
            ],
            "cluster_id": "scripted",
            "controller_id": 1,
            "topics": [self._topic(name) for name in names],
        }

    def _topic(self, name: str) -> Any:
        found = {tp: state for tp, state in self.partitions.items() if tp.topic == name}
        rows = [
            {
                "partition_index": tp.partition,
                "leader_id": state.leader,
                "leader_epoch": state.epoch,
                "replica_nodes": [],
                "isr_nodes": [],
                "offline_replicas": [],
            }
            for tp, state in found.items()
        ]
        code = ErrorCode.NONE if found else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        topic_id = uuid_of(next(iter(found.values())).topic_id) if found else None
        return {"error_code": code, "name": name, "topic_id": topic_id, "partitions": rows}

    def _list_offsets(self, request: Any, tp: TopicPartition, row: Any) -> Mapping[str, Any]:
        state = self.partitions[tp]
        code = state.on_list_offsets()
        ends = {
            EARLIEST: (state.log_start, -1),
            LATEST: (state.end_for(request.isolation_level), -1),
        }
        offset, timestamp = ends.get(row.timestamp) or state.first_at(row.timestamp)
        return {
            "error_code": code,
            "timestamp": timestamp,
            "offset": -1 if code else offset,
            "leader_epoch": state.epoch,
        }

    def _configs(self, wanted: Any) -> Any:
        config = {
            "name": "cleanup.policy",
            "value": self.cleanup_policy,
            "read_only": False,
            "config_source": 5,
            "is_sensitive": False,
            "synonyms": [],
            "config_type": 7,
            "documentation": None,
        }
        place = {"resource_type": wanted.resource_type, "resource_name": wanted.resource_name}
        return {**place, "configs": [config]}

    def _commit(
        self, request: Any, code: ErrorCode, tp: TopicPartition, row: Any
    ) -> Mapping[str, Any]:
        if code is ErrorCode.NONE:
            self.committed.setdefault(request.group_id, {})[tp] = row.committed_offset
        return {"error_code": code}

    def _fetch(self, node: int, request: fetch.FetchRequest) -> fetch.FetchResponse | None:
        answers = [self._fetched(node, request, wanted) for wanted in request.partitions]
        if None in answers:
            return None
        return fetch.FetchResponse(0, ErrorCode.NONE, 0, [each for each in answers if each])

    def _fetched(
        self, node: int, request: fetch.FetchRequest, wanted: fetch.FetchPartition
    ) -> fetch.FetchedPartition | None:
        ((tp, state),) = [
            (tp, state) for tp, state in self.partitions.items() if tp.partition == wanted.partition
        ]
        state.fetches.append((node, wanted.fetch_offset))
        outcome = state.on_fetch(node, wanted.fetch_offset)
        if outcome == "close":
            return None
        preferred = state.racks.get(request.rack_id, -1)
        end = state.end_for(request.isolation_level)
        code = ErrorCode.NONE if outcome is None else ErrorCode(outcome)
        if not state.log_start <= wanted.fetch_offset <= end:
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        if node not in (state.leader, preferred):
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if preferred in (-1, node) or node != state.leader:
            preferred = -1
        records = b""
        if code is ErrorCode.NONE and preferred < 0:
            reaching = [b for b in state.batches if wanted.fetch_offset <= _last_offset(b) < end]
            records = b"".join(reaching[: state.max_batches_per_fetch])
        committed = request.isolation_level == fetch.READ_COMMITTED
        aborted = [fetch.AbortedTransaction(*each) for each in state.aborted]
        return fetch.FetchedPartition(
            topic=tp.topic,
            topic_id=wanted.topic_id,
            partition=tp.partition,
            error_code=code,
            high_watermark=state.high_watermark,
            last_stable_offset=state.end_for(fetch.READ_COMMITTED),
            log_start_offset=state.log_start,
            records=[records] if records else [],
            records_bytes=len(records),
            aborted=aborted if committed else None,
            preferred_read_replica=preferred,
        )


def _last_offset(batch: bytes) -> int:
    return [header.last_offset for _, header in iter_headers(batch)][-1]


def _server(brokers: ScriptedBrokers, node: int) -> socketserver.ThreadingTCPServer:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while prefix := self.rfile.read(4):
                frame = self.rfile.read(int.from_bytes(prefix, "big"))
                answer = brokers.frame(node, *_header(frame))
                if answer is None:
                    return
                self.wfile.write(answer)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

        def handle_error(self, *_: Any) -> None:
            """A client that hangs up is not an error."""

    return Server(("127.0.0.1", 0), Handler)


def _header(frame: bytes) -> tuple[RequestHeader, bytes, int]:
    header, body = parse_header(frame)
    return header, frame, body
