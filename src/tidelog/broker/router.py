"""From a frame to the handler of its API, and from peers' faults to codes or closed connections.

The router decides what every request has in common: is the API served on this listener, at this
version; does the body parse. Bytes that are no request close the connection, with one log line. An
API that is not served, or a version that is not, closes it too, because nobody can say what an
answer would look like; ApiVersions alone is answered in version 0 (KIP-511).

Requests that only the controller can decide are *forwarded* from broker listeners and handed over
directly on controller listeners.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from tidelog.broker.api import (
    k00_produce,
    k01_fetch,
    k02_list_offsets,
    k03_metadata,
    k10_find_coordinator,
    k18_api_versions,
    k19_create_topics,
    k20_delete_topics,
    k21_delete_records,
    k22_init_producer_id,
    k23_offset_for_leader_epoch,
    k32_describe_configs,
    k33_alter_configs,
    k35_describe_log_dirs,
    k37_create_partitions,
    k43_elect_leaders,
    k44_incremental_alter_configs,
    k45_alter_partition_reassignments,
    k46_list_partition_reassignments,
    k55_describe_quorum,
    k56_alter_partition,
    k57_update_features,
    k58_envelope,
    k60_describe_cluster,
    k62_broker_registration,
    k63_broker_heartbeat,
    k64_unregister_broker,
    k67_allocate_producer_ids,
    k70_controller_registration,
    k73_assign_replicas_to_dirs,
    k75_describe_topic_partitions,
    k80_add_raft_voter,
    k81_remove_raft_voter,
    k82_update_raft_voter,
)
from tidelog.broker.connections import Connection, PendingRequest
from tidelog.broker.context import Broker
from tidelog.broker.control_link import Forward
from tidelog.controller.messages import Response
from tidelog.env.instant import Instant
from tidelog.env.trace import Trace
from tidelog.errors import ErrorCode, MalformedFrame, ProtocolError
from tidelog.kraft import codec as quorum_codec
from tidelog.kraft import fetch_codec, snapshot_codec, voter_codec
from tidelog.kraft.messages import Request as QuorumRequest
from tidelog.kraft.messages import VoterChangeResponse
from tidelog.wire import codec
from tidelog.wire import fetch as wire_fetch
from tidelog.wire.api import (
    BROKER_APIS,
    CONTROLLER_APIS,
    MIN_PRODUCE_VERSION,
    ApiKey,
    RequestHeader,
    parse_header,
)
from tidelog.wire.entities import Entity

Handler = Callable[[Broker, PendingRequest, Any, Instant], None]

_LOCAL: Final[dict[ApiKey, Handler]] = {
    ApiKey.LIST_OFFSETS: k02_list_offsets.handle,
    ApiKey.METADATA: k03_metadata.handle,
    ApiKey.FIND_COORDINATOR: k10_find_coordinator.handle,
    ApiKey.API_VERSIONS: k18_api_versions.handle,
    ApiKey.DELETE_RECORDS: k21_delete_records.handle,
    ApiKey.INIT_PRODUCER_ID: k22_init_producer_id.handle,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: k23_offset_for_leader_epoch.handle,
    ApiKey.DESCRIBE_CONFIGS: k32_describe_configs.handle,
    ApiKey.DESCRIBE_LOG_DIRS: k35_describe_log_dirs.handle,
    ApiKey.DESCRIBE_CLUSTER: k60_describe_cluster.handle,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: k75_describe_topic_partitions.handle,
}
"""Answered by this node alone."""

_CONTROLLER: Final[dict[ApiKey, ModuleType]] = {
    ApiKey.CREATE_TOPICS: k19_create_topics,
    ApiKey.DELETE_TOPICS: k20_delete_topics,
    ApiKey.ALTER_CONFIGS: k33_alter_configs,
    ApiKey.CREATE_PARTITIONS: k37_create_partitions,
    ApiKey.ELECT_LEADERS: k43_elect_leaders,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: k44_incremental_alter_configs,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: k45_alter_partition_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: k46_list_partition_reassignments,
    ApiKey.UNREGISTER_BROKER: k64_unregister_broker,
    ApiKey.DESCRIBE_QUORUM: k55_describe_quorum,
    ApiKey.ALTER_PARTITION: k56_alter_partition,
    ApiKey.UPDATE_FEATURES: k57_update_features,
    ApiKey.BROKER_REGISTRATION: k62_broker_registration,
    ApiKey.BROKER_HEARTBEAT: k63_broker_heartbeat,
    ApiKey.ALLOCATE_PRODUCER_IDS: k67_allocate_producer_ids,
    ApiKey.CONTROLLER_REGISTRATION: k70_controller_registration,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: k73_assign_replicas_to_dirs,
    ApiKey.ADD_RAFT_VOTER: k80_add_raft_voter,
    ApiKey.REMOVE_RAFT_VOTER: k81_remove_raft_voter,
    ApiKey.UPDATE_RAFT_VOTER: k82_update_raft_voter,
}
"""Decided by the active controller."""

_QUORUM: Final = frozenset(
    (
        ApiKey.FETCH,
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.FETCH_SNAPSHOT,
    )
)
"""The metadata quorum's, on controller listeners."""

_VOTERS: Final = (k80_add_raft_voter, k81_remove_raft_voter, k82_update_raft_voter)
"""Decided by the quorum's leader, which is the active controller."""

_HELLO: Final = frozenset((ApiKey.BROKER_REGISTRATION, ApiKey.BROKER_HEARTBEAT))
"""Requests that tell which broker is at the other end."""


@dataclass(frozen=True, slots=True, eq=False)
class ControllerRequest:
    """A request that came to the controller listener: the controller's `reply_to`."""

    pending: PendingRequest
    header: RequestHeader
    """The header of the request to answer: the inner one of an envelope."""
    module: ModuleType
    request: Entity
    enveloped: bool


class Router:
    """The dispatch of one node."""

    def __init__(self, broker: Broker, trace: Trace) -> None:
        self.broker = broker
        self._trace = trace

    def on_frame(self, connection: Connection, frame: memoryview, now: Instant) -> None:
        """Dispatches one request; a peer's fault never raises."""
        try:
            header, offset = parse_header(frame)
            on_controller = connection.listener in self.broker.config.controller_listener_names
            served = (CONTROLLER_APIS if on_controller else BROKER_APIS).get(header.api_key)
            if served is None:
                raise MalformedFrame(f"API `{header.api_key.name}` is not served here")
            low, high = served
            if header.api_key is ApiKey.PRODUCE:
                low = MIN_PRODUCE_VERSION
            if not low <= header.api_version <= high:
                self._on_unsupported_version(connection, header)
            elif on_controller:
                self._on_controller_frame(connection, header, frame, offset, now)
            else:
                self._on_broker_frame(connection, header, frame, offset, now)
        except ProtocolError as fault:
            self._trace.warn(
                f"connection {connection.connection_id}",
                "on_frame",
                "closed",
                fault.message,
                peer=connection.peer_host,
            )
            self.broker.connections.drop(connection)

    def _on_unsupported_version(self, connection: Connection, header: RequestHeader) -> None:
        if header.api_key is not ApiKey.API_VERSIONS:
            raise MalformedFrame(
                f"version `{header.api_version}` of `{header.api_key.name}` is not served"
            )
        pending = self.broker.connections.admit(connection, header)
        entity = k18_api_versions.response(self.broker, pending, 0, ErrorCode.UNSUPPORTED_VERSION)
        self.broker.answer(pending, entity)

    def _on_broker_frame(
        self,
        connection: Connection,
        header: RequestHeader,
        frame: memoryview,
        offset: int,
        now: Instant,
    ) -> None:
        broker = self.broker
        if header.api_key is ApiKey.PRODUCE:
            k00_produce.handle(
                broker, broker.connections.admit(connection, header), frame, offset, now
            )
        elif header.api_key is ApiKey.FETCH:
            k01_fetch.handle(
                broker, broker.connections.admit(connection, header), frame, offset, now
            )
        elif header.api_key in _CONTROLLER:
            request = codec.decode_request(header, frame, offset)
            pending = broker.connections.admit(connection, header)
            module = _CONTROLLER[header.api_key]
            broker.control.forward(pending, module, bytes(frame), request, now)
        else:
            request = codec.decode_request(header, frame, offset)
            pending = broker.connections.admit(connection, header)
            _LOCAL[header.api_key](broker, pending, request, now)

    def _on_controller_frame(
        self,
        connection: Connection,
        header: RequestHeader,
        frame: memoryview,
        offset: int,
        now: Instant,
    ) -> None:
        broker = self.broker
        if header.api_key in _QUORUM:
            self._on_quorum_frame(connection, header, frame, offset, now)
            return
        request = codec.decode_request(header, frame, offset)
        pending = broker.connections.admit(connection, header)
        if header.api_key is ApiKey.ENVELOPE:
            self._on_envelope(pending, request, now)
        elif header.api_key in _LOCAL:
            _LOCAL[header.api_key](broker, pending, request, now)
        else:
            if header.api_key in _HELLO:
                connection.broker_id = request.broker_id
            self._decide(pending, header, request, now, enveloped=False)

    def _on_quorum_frame(
        self,
        connection: Connection,
        header: RequestHeader,
        frame: memoryview,
        offset: int,
        now: Instant,
    ) -> None:
        broker = self.broker
        request: QuorumRequest
        if header.api_key is ApiKey.FETCH:
            fetch = wire_fetch.parse_request(header.api_version, frame, offset)
            request = fetch_codec.fetch_request_of(fetch)
        elif header.api_key is ApiKey.FETCH_SNAPSHOT:
            entity = codec.decode_request(header, frame, offset)
            request = snapshot_codec.snapshot_request_of(entity)
        else:
            request = quorum_codec.request_of(codec.decode_request(header, frame, offset))
        pending = broker.connections.admit(connection, header)
        broker.quorum.on_request(request, pending, now)

    def _on_envelope(self, pending: PendingRequest, envelope: Entity, now: Instant) -> None:
        controller = self.broker.controller
        if controller is None or not controller.active:
            k58_envelope.refuse(self.broker, pending, ErrorCode.NOT_CONTROLLER)
            return
        frame = memoryview(envelope.request_data)
        header, offset = parse_header(frame)
        served = CONTROLLER_APIS.get(header.api_key)
        if header.api_key not in _CONTROLLER or served is None:
            raise MalformedFrame(f"an envelope around `{header.api_key.name}`")
        if not served[0] <= header.api_version <= served[1]:
            raise MalformedFrame(f"an envelope around version `{header.api_version}`")
        request = codec.decode_request(header, frame, offset)
        self._decide(pending, header, request, now, enveloped=True)

    def _decide(
        self,
        pending: PendingRequest,
        header: RequestHeader,
        request: Entity,
        now: Instant,
        *,
        enveloped: bool,
    ) -> None:
        module = _CONTROLLER[header.api_key]
        reply_to = ControllerRequest(pending, header, module, request, enveloped)
        if module is k55_describe_quorum:
            entity = k55_describe_quorum.response(self.broker, header.api_version, request, now)
            self._answer(reply_to, entity)
        elif module in _VOTERS:
            self.broker.quorum.on_request(voter_codec.request_of(request), reply_to, now)
        else:
            controller = self.broker.controller
            assert controller is not None, "a controller listener without a controller"
            controller.handle(module.message_of(request), reply_to, now)

    def on_controller_reply(self, reply_to: ControllerRequest, response: Response) -> None:
        """The controller decided a request that came to the controller listener."""
        if reply_to.enveloped and k58_envelope.is_not_controller(response):
            k58_envelope.refuse(self.broker, reply_to.pending, ErrorCode.NOT_CONTROLLER)
            return
        version = reply_to.header.api_version
        entity = reply_to.module.entity_of(self.broker, version, reply_to.request, response)
        self._answer(reply_to, entity)

    def on_voters_changed(self, reply_to: object, response: VoterChangeResponse) -> None:
        """The quorum decided about its voters, for a client of this node or of another one."""
        if isinstance(reply_to, Forward):
            pending = reply_to.pending
            header = pending.header
            entity = voter_codec.response_to_entity(header.api_key, response, header.api_version)
            self.broker.answer(pending, entity)
            return
        assert isinstance(reply_to, ControllerRequest), f"unknown reply_to {reply_to!r}"
        header = reply_to.header
        if reply_to.enveloped and response.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            k58_envelope.refuse(self.broker, reply_to.pending, ErrorCode.NOT_CONTROLLER)
            return
        entity = voter_codec.response_to_entity(header.api_key, response, header.api_version)
        self._answer(reply_to, entity)

    def _answer(self, reply_to: ControllerRequest, entity: Entity) -> None:
        if reply_to.enveloped:
            framed = codec.encode_response(reply_to.header, entity)
            entity = k58_envelope.response(ErrorCode.NONE, framed[4:])
        self.broker.answer(reply_to.pending, entity)
