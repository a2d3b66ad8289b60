"""The way to the active controller: every call ends once, forwards find the controller."""

from typing import Any

import pytest

from tests.unit.broker.one_node import SETTINGS
from tests.unit.controller.harness import NODE_ID, Stage, a_stage
from tidelog.broker.api import k19_create_topics, k55_describe_quorum
from tidelog.broker.api.catalogue import APIS
from tidelog.broker.api.passing import Gate
from tidelog.broker.authorization import Authorization
from tidelog.broker.connections import Connection, Connections, RequestContext
from tidelog.broker.control_link import (
    FORWARD_RETRY_MS,
    Call,
    CallEnded,
    ControlLink,
    ForwardLedHere,
)
from tidelog.broker.peers import Answered, Failed, PeerChannels, PeerLost, Purpose
from tidelog.broker.throttling import Throttling
from tidelog.config import parse_node_config
from tidelog.config.values import AuthorizationConfig
from tidelog.controller.messages import (
    AllocateProducerIds,
    AllocateProducerIdsResult,
    BrokerHeartbeat,
    Refused,
)
from tidelog.controller.topic_messages import CreateTopics, CreateTopicsResult, NewTopic
from tidelog.env.effects import Close, CloseReason, Connect, EffectQueue, Send
from tidelog.env.instant import Instant
from tidelog.env.trace import Level, Trace, TraceList
from tidelog.errors import ErrorCode, MalformedFrame
from tidelog.metadata.image import EMPTY_IMAGE
from tidelog.model import Endpoint
from tidelog.wire import codec
from tidelog.wire.api import ApiKey, RequestHeader, parse_header
from tidelog.wire.entities import make
from tidelog.wire.frames import FrameReader
from tidelog.wire.values import error, millis

TIMEOUT_MS = 30_000
SESSION_MS = 9_000
WISH = AllocateProducerIds(broker_id=NODE_ID, broker_epoch=7)


class Desk:
    """A control link with its peers, and a controller that is active or not."""

    def __init__(self, stage: Stage | None = None) -> None:
        self.stage = stage or Stage()
        self.effects = EffectQueue()
        self.peers = PeerChannels(self.effects)
        for node_id in (0, 1, 2):
            self.peers.set_address(node_id, Purpose.CONTROL, Endpoint("C", f"host{node_id}", 9093))
        config = parse_node_config(
            SETTINGS
            | {
                "node.id": str(NODE_ID),
                "controller.quorum.voters": f"{NODE_ID}@host1:9093",
                "request.timeout.ms": str(TIMEOUT_MS),
                "broker.session.timeout.ms": str(SESSION_MS),
            }
        )
        trace = Trace(TraceList(), Level.INFO)
        authorization = Authorization(AuthorizationConfig(), trace)
        throttling = Throttling(config, Connections(self.effects, 1 << 20), trace.steps)
        self.link = ControlLink(
            config=config,
            apis=APIS,
            controller=self.stage.controller,
            peers=self.peers,
            gate=Gate(authorization, throttling),
        )
        self.now = Instant(0)

    def lead(self, node_id: int) -> None:
        """The quorum has this leader; the node knows."""
        self.link.leader_id = node_id
        self.deliver()

    def sent(self) -> list[tuple[RequestHeader, Any]]:
        """Requests that left since the last call; connects succeed at once."""
        requests = []
        self.peers.flush()
        effects = self.effects.take()
        for effect in effects:
            if isinstance(effect, Connect):
                self.peers.on_connected(effect.connection)
                self.connection = effect.connection
        self.peers.flush()
        for effect in effects + self.effects.take():
            if isinstance(effect, Send):
                for chunk in effect.chunks:
                    header, offset = parse_header(chunk[4:])
                    requests.append((header, codec.decode_request(header, chunk[4:], offset)))
        self.deliver()
        return requests

    def reply(self, header: RequestHeader, entity: Any) -> None:
        """The other node's response to the oldest request arrives."""
        self.peers.on_received(self.connection, codec.encode_response(header, entity))
        self.deliver()

    def cut(self) -> None:
        """The control connection is gone."""
        self.peers.on_closed(self.connection, CloseReason.PEER)
        self.deliver()

    def deliver(self) -> None:
        for output in self.peers.take_outputs():
            if isinstance(output, Answered):
                self.link.on_answered(output.token, output.frame, self.now)
            elif isinstance(output, Failed):
                self.link.on_failed(output.token, self.now)

    def outcomes(self) -> list[Any]:
        return self.link.take_outcomes()

    def create_topic(self, name: str = "t") -> bytes:
        """Forwards a client's CreateTopics; returns the frame that the client sent."""
        request = k19_create_topics.API.request(CreateTopics((NewTopic(name, 1, 1),)))
        frame = codec.encode_request(request, 99, "client")[4:]
        header, _ = parse_header(frame)
        self.link.forward(
            a_context(header), k19_create_topics.API, frame, request, EMPTY_IMAGE, self.now
        )
        return frame


def a_context(header: RequestHeader) -> RequestContext:
    """A request of a client."""
    connections = Connections(EffectQueue(), 1000)
    return RequestContext(
        Connection(connections, 1, "PLAINTEXT", "peer", FrameReader(1000)), header
    )


def local(desk: Desk) -> list[Any]:
    """Takes the local controller's answers to the link, as the node does."""
    log = desk.stage.log
    while batches := log.commit():
        for batch in batches:
            desk.stage.controller.on_committed(batch, desk.now)
    for reply in desk.stage.controller.take_outputs():
        desk.link.on_controller_reply(reply.reply_to, reply.response, desk.now)
    return desk.outcomes()


# Calls -------------------------------------------------------------------------------------


def test_without_a_leader_a_call_ends_at_once():
    desk = Desk()
    desk.link.call(WISH, "token", desk.now)
    assert desk.outcomes() == [CallEnded("token", None)]
    assert desk.sent() == []


def test_a_leader_that_is_not_active_yet_is_not_the_controller():
    """Elected, but the beginning of its epoch is not committed."""
    desk = Desk()
    desk.lead(NODE_ID)
    desk.link.call(WISH, "token", desk.now)
    assert desk.outcomes() == [CallEnded("token", None)]


def test_a_call_to_the_controller_of_this_node_takes_no_wire():
    desk = Desk(a_stage(1))
    desk.lead(NODE_ID)
    epoch = desk.stage.epochs[1]
    desk.link.call(AllocateProducerIds(1, epoch), "token", desk.now)
    assert desk.outcomes() == []
    (ended,) = local(desk)
    assert ended.token == "token"
    assert isinstance(ended.response, AllocateProducerIdsResult)
    assert desk.sent() == []


def test_a_call_to_another_controller_goes_under_its_own_key():
    desk = Desk()
    desk.lead(1)
    desk.link.call(WISH, "token", desk.now)
    ((header, request),) = desk.sent()
    assert (header.api_key, header.client_id) == (ApiKey.ALLOCATE_PRODUCER_IDS, f"broker-{NODE_ID}")
    assert (request.broker_id, request.broker_epoch) == (NODE_ID, 7)
    response = make(
        codec.response_class(ApiKey.ALLOCATE_PRODUCER_IDS, 0),
        throttle_time=millis(0),
        error_code=error(ErrorCode.NONE),
        producer_id_start=5000,
        producer_id_len=1000,
    )
    desk.reply(header, response)
    assert desk.outcomes() == [CallEnded("token", AllocateProducerIdsResult(5000, 1000))]


def test_node_zero_may_be_the_controller():
    desk = Desk()
    desk.lead(0)
    desk.link.call(WISH, "token", desk.now)
    assert len(desk.sent()) == 1
    desk.create_topic()
    assert len(desk.sent()) == 1
    desk.lead(1)
    assert [type(outcome) for outcome in desk.outcomes()] == [CallEnded]


def test_a_refusal_ends_a_call():
    desk = Desk()
    desk.lead(1)
    desk.link.call(WISH, "token", desk.now)
    ((header, _),) = desk.sent()
    response = make(
        codec.response_class(ApiKey.ALLOCATE_PRODUCER_IDS, 0),
        throttle_time=millis(0),
        error_code=error(ErrorCode.NOT_CONTROLLER),
        producer_id_start=-1,
        producer_id_len=0,
    )
    desk.reply(header, response)
    (ended,) = desk.outcomes()
    assert ended.response == Refused(ErrorCode.NOT_CONTROLLER, "NOT_CONTROLLER")


def test_a_lost_connection_ends_every_call_on_it():
    desk = Desk()
    desk.lead(1)
    desk.link.call(WISH, "a", desk.now)
    desk.link.call(BrokerHeartbeat(NODE_ID, 7, 3, False, False), "b", desk.now)
    assert [header.api_key.name for header, _ in desk.sent()] == [
        "ALLOCATE_PRODUCER_IDS",
        "BROKER_HEARTBEAT",
    ]
    desk.cut()
    assert desk.outcomes() == [CallEnded("a", None), CallEnded("b", None)]


@pytest.mark.parametrize(
    ("message", "timeout_ms"),
    [
        (WISH, TIMEOUT_MS),
        (
            BrokerHeartbeat(
                broker_id=NODE_ID,
                broker_epoch=7,
                current_metadata_offset=3,
                want_fence=False,
                want_shut_down=False,
            ),
            SESSION_MS // 2,
        ),
    ],
)
def test_a_call_times_out(message, timeout_ms):
    """A heartbeat long before its session could end twice over."""
    desk = Desk()
    desk.lead(1)
    desk.link.call(message, "token", desk.now)
    desk.sent()
    desk.peers.wake(Instant(timeout_ms - 1))
    assert not desk.peers.has_outputs
    desk.peers.wake(Instant(timeout_ms))
    desk.deliver()
    assert desk.outcomes() == [CallEnded("token", None)]


def test_a_heartbeat_to_the_controller_of_this_node_is_given_up_too():
    """It is answered when what it has changed is committed. On a slow disk its sender would be
    fenced meanwhile, because it sends no other one."""
    desk = Desk(a_stage(1))
    desk.lead(NODE_ID)
    heartbeat = BrokerHeartbeat(1, desk.stage.epochs[1], desk.stage.log.end_offset, False, False)
    for token in ("first", "second"):
        desk.link.call(heartbeat, token, desk.now)
        given_up_at = Instant(desk.now + SESSION_MS // 2)
        assert desk.link.deadline() == given_up_at
        desk.link.wake(Instant(given_up_at - 1))
        assert desk.outcomes() == []
        desk.now = given_up_at
        desk.link.wake(desk.now)
        assert desk.outcomes() == [CallEnded(token, None)]
    assert desk.link.deadline() is None
    desk.link.call(heartbeat, "third", desk.now)
    # Three answers at once, two of them too late.
    (ended,) = local(desk)
    assert (ended.token, ended.response.is_fenced) == ("third", False)
    assert desk.link.deadline() is None


def test_a_new_leader_ends_what_waits_for_the_old_one():
    """A stopped process keeps its connections: without this, heartbeats under way to it would keep
    this broker from the new controller until its session there is over."""
    desk = Desk()
    desk.lead(1)
    desk.link.call(WISH, "token", desk.now)
    desk.sent()
    desk.link.leader_id = -1
    assert not desk.peers.has_outputs, "no other controller is known yet"
    desk.link.leader_id = 2
    outputs = desk.peers.take_outputs()
    assert not any(isinstance(output, PeerLost) for output in outputs)
    desk.link.on_failed(outputs[0].token, desk.now)
    assert desk.outcomes() == [CallEnded("token", None)]
    desk.link.call(WISH, "again", desk.now)
    connects = [effect for effect in desk.effects.take() if isinstance(effect, Close | Connect)]
    assert [type(effect).__name__ for effect in connects] == ["Close", "Connect"]
    assert connects[1].host == "host2"


def test_the_same_leader_again_ends_nothing():
    desk = Desk()
    desk.lead(1)
    desk.link.call(WISH, "token", desk.now)
    desk.sent()
    desk.link.leader_id = -1
    desk.link.leader_id = 1
    assert not desk.peers.has_outputs
    assert desk.effects.take() == []


def test_a_response_that_is_none_is_malformed():
    desk = Desk()
    with pytest.raises(MalformedFrame):
        desk.link.on_answered(Call(WISH, "token"), b"\x00\x00\x00\x01\x00", desk.now)
    assert desk.outcomes() == []


# Forwards ----------------------------------------------------------------------------------


def test_a_forward_waits_until_a_controller_is_there():
    desk = Desk(a_stage(1))
    desk.stage.lose()
    desk.stage.answers.clear()
    desk.create_topic()
    assert desk.outcomes() == []
    assert desk.link.deadline() == FORWARD_RETRY_MS
    desk.stage.lead(epoch=3)
    desk.lead(NODE_ID)
    desk.link.wake(Instant(FORWARD_RETRY_MS - 1))
    assert local(desk) == []
    desk.link.wake(Instant(FORWARD_RETRY_MS))
    (decided,) = local(desk)
    assert isinstance(decided.response, CreateTopicsResult)
    assert decided.response.topics[0].name == "t"
    assert desk.link.deadline() is None


def test_a_forward_that_finds_no_controller_in_time_is_refused():
    desk = Desk()
    desk.create_topic()
    attempts = 0
    while not (outcomes := desk.outcomes()):
        desk.now = desk.link.deadline()
        desk.link.wake(desk.now)
        attempts += 1
    (decided,) = outcomes
    assert desk.now == TIMEOUT_MS
    assert attempts == TIMEOUT_MS // FORWARD_RETRY_MS
    assert decided.response.error_code is ErrorCode.REQUEST_TIMED_OUT


def test_a_forward_to_another_node_travels_in_an_envelope_as_it_came():
    desk = Desk()
    desk.lead(2)
    frame = desk.create_topic()
    ((header, envelope),) = desk.sent()
    assert header.api_key is ApiKey.ENVELOPE
    assert bytes(envelope.request_data) == frame
    inner = b"the controller's answer"
    desk.reply(header, enveloped(inner, ErrorCode.NONE))
    (decided,) = desk.outcomes()
    assert decided.response == inner


def enveloped(inner: bytes | None, code: ErrorCode) -> Any:
    response_type = codec.response_class(ApiKey.ENVELOPE, 0)
    return make(response_type, response_data=inner, error_code=error(code))


def test_an_envelope_that_met_no_controller_is_sent_again():
    desk = Desk()
    desk.lead(2)
    frame = desk.create_topic()
    ((header, _),) = desk.sent()
    desk.reply(header, enveloped(None, ErrorCode.NOT_CONTROLLER))
    assert desk.outcomes() == []
    desk.lead(1)
    desk.link.wake(Instant(FORWARD_RETRY_MS))
    ((_, envelope),) = desk.sent()
    assert bytes(envelope.request_data) == frame


@pytest.mark.parametrize(
    ("code", "to_client"),
    [
        (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_VERSION),
        (ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_an_envelope_that_a_controller_cannot_open_is_not_sent_again(code, to_client):
    desk = Desk()
    desk.lead(2)
    desk.create_topic()
    ((header, _),) = desk.sent()
    desk.reply(header, enveloped(None, code))
    (decided,) = desk.outcomes()
    assert decided.response.error_code is to_client and code.name in decided.response.message


def test_an_attempt_never_lasts_longer_than_its_forward():
    """A client waits `request.timeout.ms` and no longer, also when a late attempt meets silence."""
    desk = Desk()
    desk.create_topic()
    late = Instant(TIMEOUT_MS - 100)
    desk.lead(1)
    desk.link.wake(late)
    desk.sent()
    assert desk.peers.deadline() == TIMEOUT_MS
    desk.now = Instant(TIMEOUT_MS)
    desk.peers.wake(desk.now)
    desk.deliver()
    (decided,) = desk.outcomes()
    assert decided.response.error_code is ErrorCode.REQUEST_TIMED_OUT


def test_a_lost_connection_makes_a_forward_try_again():
    desk = Desk()
    desk.lead(1)
    desk.create_topic()
    desk.sent()
    desk.cut()
    assert desk.outcomes() == []
    desk.link.wake(Instant(FORWARD_RETRY_MS))
    assert len(desk.sent()) == 1


def test_a_controller_that_loses_its_office_makes_a_forward_try_again():
    desk = Desk(a_stage(1))
    desk.lead(NODE_ID)
    desk.create_topic()
    desk.stage.log.lose()
    desk.stage.controller.on_leader_change(2, 9, -1, desk.now)
    assert local(desk) == []
    desk.lead(2)
    desk.link.wake(Instant(FORWARD_RETRY_MS))
    ((header, _),) = desk.sent()
    assert header.api_key is ApiKey.ENVELOPE


def test_describing_the_quorum_is_left_to_the_leader_of_the_quorum():
    desk = Desk(a_stage(1))
    desk.lead(NODE_ID)
    header = RequestHeader(ApiKey.DESCRIBE_QUORUM, 2, 1, "client")
    context = a_context(header)
    request = make(codec.request_class(ApiKey.DESCRIBE_QUORUM, 2), topics=())
    desk.link.forward(context, k55_describe_quorum.API, b"frame", request, EMPTY_IMAGE, desk.now)
    (decided,) = desk.outcomes()
    assert isinstance(decided, ForwardLedHere)
    assert decided.forward.context is context
