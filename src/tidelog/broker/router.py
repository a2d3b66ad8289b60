"""The way of a request: connection, frame, declaration, decoding, handler, answer.

`on_frame` finds the declaration of the API in the table of the listener and checks the version.
What happens next depends on the kind of the declaration (`broker/api/declaration.py`):

- what this node answers by itself goes to the handler, which answers through its context;
- what the active controller or the quorum's leader decides is *forwarded* from broker listeners
  (`broker/control_link.py`) and handed over directly on controller listeners, where a broker's
  envelope may be around it. The answer comes back through one of the `on_*` functions at the end;
- requests between replicas of the metadata log go to the quorum.

Bytes that are not a request close the connection, with one log line. An API that is not served, or
a version that is not, closes it too, because no form of an answer is known; only an API that
declares one has an answer for unknown versions.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Final, assert_never

from tidelog.broker.api import k58_envelope
from tidelog.broker.api.checks import pass_checks
from tidelog.broker.api.declaration import (
    Api,
    ControllerApi,
    EnvelopeApi,
    ForwardedApi,
    HotApi,
    Listener,
    LocalApi,
    QuorumApi,
    QuorumQueryApi,
    VoterChangeApi,
)
from tidelog.broker.api.k58_envelope import EnvelopedContext
from tidelog.broker.api.mirroring import SENTENCE, mirrored
from tidelog.broker.api.mutations import counts_mutations
from tidelog.broker.connections import Connection, RequestContext
from tidelog.broker.context import Broker
from tidelog.broker.control_link import Forward, ForwardAnswered, ForwardDecided, ForwardOutcome
from tidelog.broker.events import RequestMalformed
from tidelog.broker.key_stores import HeldAlteration
from tidelog.controller.messages import BrokerHeartbeat, Refused, RegisterBroker, Response
from tidelog.controller.repeats import settle
from tidelog.env.instant import Instant
from tidelog.env.trace import Trace
from tidelog.errors import ErrorCode, MalformedFrame, ProtocolError
from tidelog.kraft import codec as quorum_codec
from tidelog.kraft.messages import Response as QuorumResponse
from tidelog.kraft.messages import VoterChangeResponse
from tidelog.limits import DECODED_KILOBYTE_WORK
from tidelog.wire import codec
from tidelog.wire.api import RequestHeader, parse_header
from tidelog.wire.entities import Entity, field
from tidelog.wire.values import millis, to_millis

_FROM_BROKERS: Final = (RegisterBroker, BrokerHeartbeat)
"""Messages that name the broker at the other end of their connection."""


@dataclass(frozen=True, slots=True, eq=False)
class ControllerRequest:
    """A request on the controller listener that the controller or the quorum's leader decides:
    their `reply_to`."""

    context: RequestContext | EnvelopedContext
    api: ForwardedApi[Broker]
    request: Entity
    """As it came, or without the rows that were denied."""


@dataclass(frozen=True, slots=True, eq=False)
class QuorumRequest:
    """A request of another replica of the metadata log: the quorum's `reply_to`."""

    context: RequestContext
    api: QuorumApi[Any, Any]


class Router:
    """The dispatch of one node."""

    def __init__(self, broker: Broker, trace: Trace) -> None:
        self.broker = broker
        self._trace = trace
        # Where requests meet the quotas of their clients.
        self._throttling = broker.throttling
        # Requests are steps by the names of their APIs; those that the broker parses by hand are
        # too many for a step each.
        self._steps = trace.steps
        # Names of the listeners that serve the controllers' APIs.
        self._controller_listeners = broker.config.controller_listener_names
        # What the listeners serve, by key.
        self._broker_apis = broker.apis.table(Listener.BROKER)
        self._controller_apis = broker.apis.table(Listener.CONTROLLER)

    # Requests ------------------------------------------------------------------------------

    def on_frame(self, connection: Connection, frame: memoryview, now: Instant) -> None:
        """Dispatches one request; a peer's fault never raises."""
        login = connection.login
        if login is not None and not self.broker.logins.admits(connection, login, frame, now):
            return
        try:
            header, offset = parse_header(frame)
            on_controller = connection.listener in self._controller_listeners
            api = (self._controller_apis if on_controller else self._broker_apis)[header.api_key]
            if api is None:
                raise MalformedFrame(f"API `{header.api_key.name}` is not served here")
            low, high = api.versions
            if self.broker.authorization.authorizer is not None:
                self.broker.authorization.of(connection)
            if not low <= header.api_version <= high:
                self._on_unsupported_version(api, connection, header)
            elif isinstance(api, HotApi):
                self._steps.name = api.name
                context = self.broker.connections.admit(connection, header)
                if self._throttling.is_on:
                    self._throttling.on_request(api.key, api.requires, context, len(frame), now)
                api.handle(self.broker, context, frame, offset, now)
            else:
                self._steps.begin(api.name)
                self._on_request(api, connection, header, frame, offset, now)
        except ProtocolError as fault:
            self._trace.event(
                RequestMalformed(
                    connection_id=connection.connection_id,
                    reason=fault.message,
                    peer=connection.peer_host,
                )
            )
            self.broker.connections.drop(connection)

    def _on_unsupported_version(
        self, api: Api[Broker], connection: Connection, header: RequestHeader
    ) -> None:
        if not isinstance(api, LocalApi) or api.unsupported is None:
            raise MalformedFrame(
                f"version `{header.api_version}` of `{header.api_key.name}` is not served"
            )
        api.unsupported(self.broker, self.broker.connections.admit(connection, header))

    def _on_request(
        self,
        api: Api[Broker],
        connection: Connection,
        header: RequestHeader,
        frame: memoryview,
        offset: int,
        now: Instant,
    ) -> None:
        broker = self.broker
        if isinstance(api, QuorumApi):
            context = self._admit(api, connection, header)
            if context.unchecked:
                request = codec.decode_request(header, frame, offset)
                if self._passed(api, context, request) is None:
                    return
            try:
                message = api.request_of(header, frame, offset)
            except MalformedFrame:
                raise
            except ProtocolError as fault:
                context.answer(mirrored(context.response_type, None, fault.code))
                return
            broker.quorum.on_request(message, QuorumRequest(context, api), now)
            return
        request = codec.decode_request(header, frame, offset)
        broker.replicas.work.spend(len(frame) // 1024 * DECODED_KILOBYTE_WORK)
        context = self._admit(api, connection, header)
        if self._throttling.is_on:
            self._throttling.on_request(api.key, api.requires, context, len(frame), now)
        if broker.token_rules.refuses(context, request):
            return
        match api:
            case LocalApi(is_held=True):
                broker.held_questions.hold(
                    context, lambda at: self._answer(api, context, request, at), now
                )
            case LocalApi():
                self._answer(api, context, request, now)
            case EnvelopeApi():
                self._on_envelope(context, request, now)
            case ControllerApi() | QuorumQueryApi() | VoterChangeApi():
                if connection.listener in self._controller_listeners:
                    self._decide(ControllerRequest(context, api, request), now)
                elif not broker.key_stores.takes(broker, context, api, frame, request):
                    frame_bytes = bytes(frame)
                    broker.control.forward(context, api, frame_bytes, request, broker.image, now)
            case HotApi():
                raise AssertionError("a hot API is not decoded")
            case _:
                assert_never(api)
        broker.connections.keep_large(context, len(frame))

    def _admit(
        self, api: Api[Broker], connection: Connection, header: RequestHeader
    ) -> RequestContext:
        context = self.broker.connections.admit(connection, header)
        context.unchecked = not connection.access.is_unlimited
        return context

    def _answer(
        self, api: LocalApi[Broker], context: RequestContext, request: Entity, now: Instant
    ) -> None:
        if context.unchecked:
            passed = self._passed(api, context, request)
            if passed is None:
                return
            request = passed
        pieces = api.handle(self.broker, context, request, now)
        if pieces is not None:
            self.broker.long_answers.begin(context, api.name, pieces)

    def _passed(self, api: Api[Broker], context: RequestContext, request: Entity) -> Entity | None:
        """The request as its handler may see it (*AuthorizedFirst*); `None` when it is refused, and
        answered."""
        image = self.broker.image
        access = self.broker.authorization.of(context.connection)
        asked = pass_checks(api.requires, access, image, request, context.response_type)
        context.unchecked = False
        if asked.refusal is not None:
            context.answer(asked.refused())
            return None
        if asked.amendments:
            context.amend = asked.amend
        return asked.request

    def _on_envelope(self, outer: RequestContext, envelope: Entity, now: Instant) -> None:
        controller, access = self.broker.controller, outer.access
        checks, image = k58_envelope.API.requires, self.broker.image
        asked = pass_checks(checks, access, image, envelope, outer.response_type)
        outer.unchecked = False
        if asked.refusal is not None:
            k58_envelope.refuse(outer, asked.refusal.code)
            return
        if controller is None or not controller.active:
            k58_envelope.refuse(outer, ErrorCode.NOT_CONTROLLER)
            return
        try:
            principal, is_delegated, host, header, api, request = k58_envelope.open_envelope(
                envelope, self._controller_apis.__getitem__
            )
        except ProtocolError as fault:
            k58_envelope.refuse(outer, fault.code)
            return
        context = EnvelopedContext(outer, header, principal, host, is_delegated)
        if not self.broker.token_rules.refuses(context, request):
            self._decide(ControllerRequest(context, api, request), now)

    def on_stores_checked(self, held: HeldAlteration, refusal: str, now: Instant) -> None:
        """The driver has tried the stores that a request sets."""
        context, broker = held.context, self.broker
        if not context.connection.open:
            return
        if refusal:
            held.refuse(broker, refusal)
        else:
            broker.control.forward(context, held.api, held.frame, held.request, broker.image, now)

    def _decide(self, asked: ControllerRequest, now: Instant) -> None:
        passed = self._passed_by_controller(asked, now)
        if passed is None:
            return
        asked = passed
        broker, context, api = self.broker, asked.context, asked.api
        match api:
            case ControllerApi():
                message = api.message_of(asked.request, context.principal)
                if isinstance(message, _FROM_BROKERS) and isinstance(context, RequestContext):
                    context.connection.broker_id = message.broker_id
                assert broker.controller is not None, "a controller listener without a controller"
                broker.controller.handle(message, asked, now)
            case QuorumQueryApi():
                context.answer(api.answer(broker, context.header.api_version, asked.request, now))
            case VoterChangeApi():
                broker.quorum.on_request(quorum_codec.request_of(asked.request), asked, now)
            case _:
                assert_never(api)

    def _passed_by_controller(
        self, asked: ControllerRequest, now: Instant
    ) -> ControllerRequest | None:
        """The same with the request as its decider may see it; `None` when it is refused."""
        broker, context, api, request = self.broker, asked.context, asked.api, asked.request
        version = context.header.api_version
        passed = broker.gate.pass_forwarded(api, context, request, broker.image, now)
        context.unchecked = False
        if passed.refusal is not None:
            refused = Refused(passed.refusal.code, SENTENCE)
            if isinstance(api, ControllerApi):
                context.answer(api.answer(broker, version, request, refused))
            else:
                context.answer(api.refuse(version, request, refused))
            return None
        context.amend = passed.amend
        return ControllerRequest(context, api, passed.request)

    # Answers -------------------------------------------------------------------------------

    def on_controller_reply(self, asked: ControllerRequest, response: Response) -> None:
        """The controller decided a request that came to the controller listener."""
        context, api = asked.context, asked.api
        assert isinstance(api, ControllerApi), f"{api.name} is not the controller's"
        is_active = not (
            isinstance(response, Refused) and response.error_code is ErrorCode.NOT_CONTROLLER
        )
        if isinstance(context, EnvelopedContext) and not is_active:
            # The broker that forwards looks for the active controller.
            context.refuse(ErrorCode.NOT_CONTROLLER)
            return
        self._answer_decided(context, api, asked.request, response)

    def _answer_decided(
        self,
        context: RequestContext | EnvelopedContext,
        api: ControllerApi[Broker, Any, Any],
        request: Entity,
        response: Response,
    ) -> None:
        version = context.header.api_version
        if isinstance(response, Refused) or not api.result.is_long(response):
            context.answer(api.answer(self.broker, version, request, response))
            return
        outer = context.outer if isinstance(context, EnvelopedContext) else context
        response_type = codec.response_class(api.key, version)
        pieces = api.result.pieces(response_type, response, context.answer)
        self.broker.long_answers.begin(outer, api.name, pieces)

    def on_quorum_reply(self, reply_to: Hashable, response: QuorumResponse) -> None:
        """The quorum answers another replica, or decided about its voters."""
        if isinstance(reply_to, QuorumRequest):
            context = reply_to.context
            context.fill(reply_to.api.reply_of(context.header, response))
            return
        assert isinstance(reply_to, ControllerRequest | Forward), f"unknown reply_to {reply_to!r}"
        asker, api = reply_to.context, reply_to.api
        assert isinstance(response, VoterChangeResponse), f"unexpected answer {response!r}"
        assert isinstance(api, VoterChangeApi), f"{api.name} changes no voters"
        is_leading = response.error_code is not ErrorCode.NOT_LEADER_OR_FOLLOWER
        if isinstance(asker, EnvelopedContext) and not is_leading:
            asker.refuse(ErrorCode.NOT_CONTROLLER)
        else:
            asker.answer(api.answer(asker.header.api_version, response))

    def on_forward_outcome(self, outcome: ForwardOutcome, now: Instant) -> None:
        """A client's request that was forwarded is decided, or is to be decided here."""
        forward = outcome.forward
        context, api, request = forward.context, forward.api, forward.request
        context.amend = None
        if forward.asked is not None:
            request, context.amend = forward.asked.request, forward.asked.amend
        # Who is refused sees nothing, and the controller of another node has asked by itself.
        is_refused = isinstance(outcome, ForwardDecided) and isinstance(outcome.response, Refused)
        if forward.asked is not None or is_refused or isinstance(outcome, ForwardAnswered):
            context.unchecked = False
        version = context.header.api_version
        if not context.connection.open:
            return
        if forward.repeated and isinstance(api, ControllerApi):
            self._on_repeated(outcome, api, now)
        elif isinstance(outcome, ForwardAnswered):
            self._pass_on(context, outcome.response, now)
        elif isinstance(outcome, ForwardDecided):
            if isinstance(api, ControllerApi):
                self._answer_decided(context, api, request, outcome.response)
            else:
                assert isinstance(outcome.response, Refused), f"{outcome.response!r}"
                context.answer(api.refuse(version, request, outcome.response))
        elif isinstance(api, QuorumQueryApi):
            context.answer(api.answer(self.broker, version, request, now))
        else:
            self.broker.quorum.on_request(quorum_codec.request_of(request), forward, now)

    def _pass_on(self, context: RequestContext, response: bytes, now: Instant) -> None:
        """Answers with what the controller of another node has answered. If a quota of the client
        is exceeded there or here, the answer is opened and says so."""
        header = context.header
        if self._throttling.is_on and (context.throttle_ms or counts_mutations(header.api_key)):
            _, entity = codec.decode_response(header.api_key, header.api_version, response)
            pause_ms = to_millis(field(entity, "throttle_time", millis(0)))
            self._throttling.on_reported(context, pause_ms, now)
            context.answer(entity)
        else:
            context.fill([len(response).to_bytes(4, "big") + response])

    def _on_repeated(
        self, outcome: ForwardOutcome, api: ControllerApi[Broker, Any, Any], now: Instant
    ) -> None:
        """A forward is decided that more than one controller may have been given."""
        forward, broker = outcome.forward, self.broker
        version = forward.context.header.api_version
        if isinstance(outcome, ForwardAnswered):
            _, entity = codec.decode_response(api.key, version, outcome.response)
            response = api.response_of(entity)
        else:
            assert isinstance(outcome, ForwardDecided), f"{outcome!r}"
            response = outcome.response
        request = forward.request if forward.asked is None else forward.asked.request
        message = api.message_of(request, forward.context.principal)
        settled = settle(forward.before, broker.image, message, response)
        if settled is None:
            broker.control.repeat(forward, now)
        elif settled == response and isinstance(outcome, ForwardAnswered):
            self._pass_on(forward.context, outcome.response, now)
        else:
            forward.context.answer(api.answer(broker, version, request, settled))
