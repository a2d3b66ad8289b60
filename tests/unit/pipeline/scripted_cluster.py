"""Brokers that hold given batches and misbehave as told, over real TCP and the real codecs.

A test says what each partition holds, who leads it, and what shall go wrong at which fetch. Every
broker is a thread with a listening socket; all share one state.
"""

import socketserver
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tidelog.errors import ErrorCode
from tidelog.model import TopicId, TopicPartition
from tidelog.records.batch import decode_batch, iter_headers
from tidelog.wire import codec, fetch
from tidelog.wire.api import ApiKey, RequestHeader, parse_header
from tidelog.wire.entities import field as value_of
from tidelog.wire.entities import make, nested
from tidelog.wire.values import error, millis, uuid_of

TOPIC_ID = TopicId(bytes(range(16)))
SERVED = {
    ApiKey.FETCH: 16,
    ApiKey.LIST_OFFSETS: 8,
    ApiKey.METADATA: 12,
    ApiKey.API_VERSIONS: 3,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.OFFSET_COMMIT: 8,
}


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
    """(producer, first offset), as `read_committed` fetches are told."""
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


class ScriptedCluster:
    """Some brokers on free ports of this machine."""

    def __init__(self, partitions: dict[TopicPartition, ScriptedPartition], nodes: int = 2) -> None:
        self.partitions = partitions
        self.cleanup_policy = "delete"
        # API key -> newest version served.
        self.served = dict(SERVED)
        # What was committed to each consumer group, and what to answer instead of NONE.
        self.committed: dict[str, dict[TopicPartition, int]] = {}
        self.on_commit: Callable[[], ErrorCode] = lambda: ErrorCode.NONE
        self.on_metadata: Callable[[], None] = lambda: None
        self._servers = {node: _server(self, node) for node in range(1, nodes + 1)}
        for server in self._servers.values():
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()

    def __enter__(self) -> "ScriptedCluster":
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers.values():
            server.shutdown()
            server.server_close()

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Every broker's address."""
        return [server.server_address for server in self._servers.values()]

    @property
    def bootstrap_servers(self) -> str:
        """The same as clients are configured with it."""
        return ",".join(f"{host}:{port}" for host, port in self.addresses)

    def answer(self, node: int, header: RequestHeader, frame: bytes, body: int) -> bytes | None:
        """The response to one request; `None` hangs up."""
        if header.api_key is ApiKey.FETCH:
            return self._fetch(node, header, frame, body)
        request = codec.decode_request(header, frame, body)
        response_type = codec.response_class(header.api_key, header.api_version)
        handler = {
            ApiKey.API_VERSIONS: self._api_versions,
            ApiKey.METADATA: self._metadata,
            ApiKey.LIST_OFFSETS: self._list_offsets,
            ApiKey.DESCRIBE_CONFIGS: self._describe_configs,
            ApiKey.FIND_COORDINATOR: self._find_coordinator,
            ApiKey.OFFSET_COMMIT: self._offset_commit,
        }[header.api_key]
        return codec.encode_response(header, handler(request, response_type))

    def _api_versions(self, request: Any, response_type: type) -> Any:
        item = nested(response_type, "api_keys")
        keys = tuple(
            make(item, api_key=k, min_version=0, max_version=v) for k, v in self.served.items()
        )
        return make(response_type, error_code=error(0), api_keys=keys, throttle_time=millis(0))

    def _metadata(self, request: Any, response_type: type) -> Any:
        self.on_metadata()
        broker_type = nested(response_type, "brokers")
        topic_type = nested(response_type, "topics")
        partition_type = nested(topic_type, "partitions")
        topics = []
        names = sorted({tp.topic for tp in self.partitions})
        if request.topics is not None:
            names = [wanted.name for wanted in request.topics]
        for name in names:
            found = {tp: p for tp, p in self.partitions.items() if tp.topic == name}
            code = ErrorCode.NONE if found else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            rows = tuple(
                make(
                    partition_type,
                    error_code=error(0),
                    partition_index=tp.partition,
                    leader_id=state.leader,
                    leader_epoch=state.epoch,
                    replica_nodes=(),
                    isr_nodes=(),
                    offline_replicas=(),
                )
                for tp, state in found.items()
            )
            topics.append(
                make(
                    topic_type,
                    error_code=error(code),
                    name=name,
                    topic_id=uuid_of(next(iter(found.values())).topic_id) if found else None,
                    is_internal=False,
                    partitions=rows,
                    topic_authorized_operations=0,
                )
            )
        brokers = tuple(
            make(broker_type, node_id=node, host=host, port=port, rack=None)
            for node, (host, port) in zip(self._servers, self.addresses, strict=True)
        )
        return make(
            response_type,
            throttle_time=millis(0),
            brokers=brokers,
            cluster_id="scripted",
            controller_id=1,
            topics=tuple(topics),
        )

    def _list_offsets(self, request: Any, response_type: type) -> Any:
        topic_type = nested(response_type, "topics")
        partition_type = nested(topic_type, "partitions")
        topics = []
        for topic in request.topics:
            rows = []
            for row in topic.partitions:
                state = self.partitions[TopicPartition(topic.name, row.partition_index)]
                code = state.on_list_offsets()
                ends = {
                    -2: (state.log_start, -1),
                    -1: (state.end_for(request.isolation_level), -1),
                }
                offset, timestamp = ends.get(row.timestamp) or state.first_at(row.timestamp)
                rows.append(
                    make(
                        partition_type,
                        partition_index=row.partition_index,
                        error_code=error(code),
                        timestamp=timestamp,
                        offset=-1 if code else offset,
                        leader_epoch=state.epoch,
                    )
                )
            topics.append(make(topic_type, name=topic.name, partitions=tuple(rows)))
        return make(response_type, throttle_time=millis(0), topics=tuple(topics))

    def _describe_configs(self, request: Any, response_type: type) -> Any:
        result_type = nested(response_type, "results")
        config_type = nested(result_type, "configs")
        config = make(
            config_type,
            name="cleanup.policy",
            value=self.cleanup_policy,
            read_only=False,
            config_source=5,
            is_sensitive=False,
            synonyms=(),
            config_type=7,
            documentation=None,
        )
        results = tuple(
            make(
                result_type,
                error_code=error(0),
                error_message=None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=(config,),
            )
            for resource in request.resources
        )
        return make(response_type, throttle_time=millis(0), results=results)

    def _find_coordinator(self, request: Any, response_type: type) -> Any:
        (host, port), node = self.addresses[-1], len(self.addresses)
        item_type = nested(response_type, "coordinators")
        found = tuple(
            make(
                item_type,
                key=key,
                node_id=node,
                host=host,
                port=port,
                error_code=error(0),
                error_message=None,
            )
            for key in request.coordinator_keys
        )
        return make(response_type, throttle_time=millis(0), coordinators=found)

    def _offset_commit(self, request: Any, response_type: type) -> Any:
        topic_type = nested(response_type, "topics")
        partition_type = nested(topic_type, "partitions")
        topics = []
        code = self.on_commit()
        for topic in request.topics:
            rows = []
            for row in topic.partitions:
                if code is ErrorCode.NONE:
                    place = TopicPartition(topic.name, row.partition_index)
                    self.committed.setdefault(request.group_id, {})[place] = row.committed_offset
                rows.append(
                    make(
                        partition_type,
                        partition_index=row.partition_index,
                        error_code=error(code),
                    )
                )
            topics.append(make(topic_type, name=topic.name, partitions=tuple(rows)))
        return make(response_type, throttle_time=millis(0), topics=tuple(topics))

    def _fetch(self, node: int, header: RequestHeader, frame: bytes, body: int) -> bytes | None:
        request = fetch.parse_request(header.api_version, frame, body)
        (wanted,) = request.partitions
        ((tp, state),) = [
            (tp, state) for tp, state in self.partitions.items() if tp.partition == wanted.partition
        ]
        state.fetches.append((node, wanted.fetch_offset))
        outcome = state.on_fetch(node, wanted.fetch_offset)
        if outcome == "close":
            return None
        preferred = state.racks.get(request.rack_id, -1)
        end = state.end_for(request.isolation_level)
        code = ErrorCode.NONE if outcome is None else outcome
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
        answer = fetch.FetchedPartition(
            topic=tp.topic,
            topic_id=wanted.topic_id,
            partition=tp.partition,
            error_code=ErrorCode(value_of(code, "value", 0)),
            high_watermark=state.high_watermark,
            last_stable_offset=state.end_for(fetch.READ_COMMITTED),
            log_start_offset=state.log_start,
            records=[records] if records else [],
            records_bytes=len(records),
            aborted=[fetch.AbortedTransaction(*each) for each in state.aborted]
            if committed
            else None,
            preferred_read_replica=preferred,
        )
        response = fetch.FetchResponse(0, ErrorCode.NONE, 0, [answer])
        chunks = fetch.pack_response(header.api_version, header.correlation_id, response)
        return b"".join(bytes(chunk) for chunk in chunks)


def _last_offset(batch: bytes) -> int:
    return [header.last_offset for _, header in iter_headers(batch)][-1]


def _server(cluster: ScriptedCluster, node: int) -> socketserver.ThreadingTCPServer:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while prefix := self.rfile.read(4):
                frame = self.rfile.read(int.from_bytes(prefix, "big"))
                header, body = parse_header(frame)
                answer = cluster.answer(node, header, frame, body)
                if answer is None:
                    return
                self.wfile.write(answer)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

        def handle_error(self, *_: Any) -> None:
            """A client that hangs up is no news."""

    return Server(("127.0.0.1", 0), Handler)
