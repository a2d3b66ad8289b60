"""The replicas' traffic with other brokers and the controller, on the wire.

Fetches and offset queries go to the leader's inter-broker listener on one connection per leader.

A connection that one end has lost without closing it looks like a leader without new records. For
as long as its follower waits, the high watermark stands still: `replica.lag.time.max.ms` and
`replica.socket.timeout.ms` are both 30 s. But a leader answers every fetch within the wait that the
fetch names. So when nothing at all has come for half a session more, the follower fetches on a new
connection. An answer that has begun keeps the full time: a large one may take long on a slow link.
"""

from typing import Final

from tidelog.broker.api import k01_fetch
from tidelog.broker.features import version_for
from tidelog.broker.offset_questions import offsets_answer, offsets_request
from tidelog.broker.peers import PeerChannels, Purpose
from tidelog.config import NodeConfig
from tidelog.controller import messages as controller_messages
from tidelog.controller.messages import Refused, Response
from tidelog.env.instant import Instant
from tidelog.metadata.image import EMPTY_IMAGE, BrokerImage, MetadataImage
from tidelog.model import Endpoint
from tidelog.replication.messages import (
    SendAlterPartition,
    SendAssignReplicas,
    SendFetch,
    SendListOffsets,
)
from tidelog.replication.replicas import Replicas
from tidelog.wire import codec
from tidelog.wire import fetch as wire_fetch

FETCH_VERSION: Final = k01_fetch.SENT_VERSION
FETCH_VERSION_SINCE: Final = 26
"""`metadata.version` of Kafka 4.1, which brought it (KIP-1166)."""
_TO_ALL: Final = (
    Purpose.MARKERS,
    Purpose.TRANSACTION_CHECK,
    Purpose.SHARE_GROUPS,
    Purpose.SHARE_STATE,
)
_TO_OTHERS: Final = (Purpose.REPLICA_FETCH, Purpose.PROBE)
"""What this node connects to brokers for: to all of them with itself, and to the others."""


class ReplicaLink:
    """Carries the replicas' outputs to `peers`, and answers back to them."""

    def __init__(self, config: NodeConfig, replicas: Replicas, peers: PeerChannels) -> None:
        self._config = config
        self._replicas = replicas
        self._peers = peers
        # The newest image, for brokers' endpoints.
        self._image: MetadataImage = EMPTY_IMAGE
        # How long after a fetch the first byte of its answer may take.
        self._first_byte_limit_ms = (
            config.replication.replica_fetch_wait_max_ms + config.broker.session_timeout_ms // 2
        )

    def on_image(self, image: MetadataImage) -> None:
        """Takes the endpoints of brokers."""
        for node_id, registered in image.brokers.items():
            endpoint = self._endpoint_of(registered)
            if endpoint is not None:
                is_own = node_id == self._config.node_id
                for purpose in _TO_ALL if is_own else _TO_ALL + _TO_OTHERS:
                    self._peers.set_address(node_id, purpose, endpoint)
                    if self._is_new_incarnation(registered):
                        # A power cut closes no connections. A fetch to the former process would
                        # wait out its whole timeout, and a probe would find it reached for ever.
                        self._peers.give_up(node_id, purpose)
        self._image = image

    def _endpoint_of(self, registered: BrokerImage) -> Endpoint | None:
        listener = self._config.inter_broker_listener_name
        if listener:
            return registered.endpoint(listener)
        # A node that is only a controller fetches nothing; any address will do for a probe.
        return registered.endpoints[0] if registered.endpoints else None

    def _is_new_incarnation(self, registered: BrokerImage) -> bool:
        known = self._image.brokers.get(registered.node_id)
        return known is not None and known.incarnation_id != registered.incarnation_id

    def send(self, output: SendFetch | SendListOffsets, now: Instant) -> None:
        """Sends to a leader; a leader without a known address counts as unreachable."""
        if not self._peers.knows(output.leader_id, Purpose.REPLICA_FETCH):
            self.on_failed(output, now)
            return
        correlation_id = self._peers.next_correlation_id()
        client_id = f"broker-{self._config.node_id}-fetcher-0"
        if isinstance(output, SendFetch):
            leader = self._image.brokers.get(output.leader_id)
            version = version_for(leader, FETCH_VERSION, FETCH_VERSION_SINCE)
            frame = wire_fetch.pack_request(version, correlation_id, client_id, output.request)
        else:
            entity = offsets_request(output.queries, self._config.node_id)
            frame = codec.encode_request(entity, correlation_id, client_id)
        deadline = Instant(now + self._config.replication.replica_socket_timeout_ms)
        first_byte_by = Instant(min(deadline, now + self._first_byte_limit_ms))
        self._peers.send(
            output.leader_id, Purpose.REPLICA_FETCH, [frame], output, deadline, first_byte_by
        )

    def on_answered(self, token: object, frame: memoryview | bytes, now: Instant) -> None:
        """A leader answered. Raises `MalformedFrame`."""
        if isinstance(token, SendFetch):
            # The version before has the same answer.
            _, response = wire_fetch.parse_response(FETCH_VERSION, frame)
            self._replicas.on_fetch_response(token.token, response, now)
            return
        assert isinstance(token, SendListOffsets), f"unexpected token {token!r}"
        self._replicas.on_list_offsets_response(token.token, offsets_answer(frame), now)

    def on_failed(self, token: object, now: Instant) -> None:
        """A leader did not answer."""
        if isinstance(token, SendFetch):
            self._replicas.on_fetch_response(token.token, None, now)
        else:
            assert isinstance(token, SendListOffsets), f"unexpected token {token!r}"
            self._replicas.on_list_offsets_response(token.token, None, now)

    def alter_partition_of(self, output: SendAlterPartition) -> controller_messages.AlterPartition:
        """The controller's message for a group of ISR proposals."""
        return controller_messages.AlterPartition(
            self._config.node_id,
            output.broker_epoch,
            tuple(
                controller_messages.IsrProposal(
                    proposal.topic_id,
                    proposal.topic_partition.partition,
                    proposal.leader_epoch,
                    proposal.partition_epoch,
                    proposal.new_isr,
                    proposal.recovering,
                )
                for proposal in output.proposals
            ),
        )

    def assign_replicas_of(self, output: SendAssignReplicas) -> controller_messages.AssignReplicas:
        """The controller's message with the directories of replicas."""
        return controller_messages.AssignReplicas(
            self._config.node_id, output.broker_epoch, output.assignments
        )

    def on_assign_replicas_result(
        self, token: SendAssignReplicas, response: Response | None, now: Instant
    ) -> None:
        """The controller accepted, refused, or could not be reached."""
        refusal = "no controller" if response is None else None
        if isinstance(response, Refused):
            refusal = response.message
        elif isinstance(response, controller_messages.AssignReplicasResult):
            refused = [each.error_code.name for each in response.results if each.error_code]
            refusal = ", ".join(refused) or None
        self._replicas.on_assign_replicas_response(token.token, refusal, now)

    def on_alter_partition_result(
        self, token: SendAlterPartition, response: Response | None, now: Instant
    ) -> None:
        """The controller decided, refused, or could not be reached."""
        if response is None:
            self._replicas.on_alter_partition_response(token.token, None, now)
        elif isinstance(response, Refused):
            self._replicas.on_alter_partition_response(token.token, response.error_code, now)
        else:
            assert isinstance(response, controller_messages.AlterPartitionResult), response
            self._replicas.on_alter_partition_response(token.token, response.results, now)
