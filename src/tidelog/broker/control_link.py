"""The way to the active controller, wherever it is.

Two kinds of traffic take it. *Calls* are this broker's own: registration, heartbeats, ISR changes,
producer ids. A call is tried once; its outcome is a controller response or `None`, and the
component that made it retries by its own rule. *Forwards* are clients' requests that only the
controller can decide. A forward is repeated until it is decided or `request.timeout.ms` has passed,
because its client must not have to know which node is the controller. What a controller was given
may have been carried out although no answer came: a forward that was is marked, and the router
reads the answer to the repetition with that in mind (`controller/repeats.py`).

When the active controller is this very node, both are handed over directly; otherwise they go over
the control channel, calls under their own API keys, forwards in an Envelope (KIP-590).

A new leader makes what is under way to the old one worthless. It fails at once and is made again:
an old controller whose process stands still keeps its connections. It would answer after
`request.timeout.ms`, long after the new one has ended the sessions of all brokers that waited.

*Signs of life*, registrations and heartbeats, are given up after half a session instead
(KAFKA-14392): an answer that is lost on a stream that neither end closed must not keep the broker
out for `request.timeout.ms`. This node's own controller loses none, but it answers what it has
written when that is committed. On a slow disk this takes longer than a session, and a broker that
waits for an answer sends no other heartbeat: its own controller would fence it as silent.

Invariant `EveryCallEnds`: each call and each forward has exactly one outcome.
"""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, Final

from tidelog.broker.api import k58_envelope
from tidelog.broker.api.checks import Asked
from tidelog.broker.api.declaration import ControllerApi, ForwardedApi
from tidelog.broker.api.mirroring import SENTENCE
from tidelog.broker.api.passing import Gate
from tidelog.broker.api.registry import Registry
from tidelog.broker.connections import RequestContext
from tidelog.broker.peers import PeerChannels, Purpose
from tidelog.config import NodeConfig
from tidelog.controller.controller import Controller
from tidelog.controller.messages import BrokerHeartbeat, Refused, RegisterBroker, Request, Response
from tidelog.env.instant import Instant, earliest
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.metadata.image import MetadataImage
from tidelog.wire.entities import Entity

FORWARD_RETRY_MS: Final = 50

_TO_CLIENTS: Final = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""Refusals of an envelope that are between brokers, and what the client is answered instead."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of this broker; also the controller's `reply_to` when it is local."""

    message: Request
    token: Hashable

    @property
    def is_sign_of_life(self) -> bool:
        """Whether it keeps a session, or begins one."""
        return isinstance(self.message, RegisterBroker | BrokerHeartbeat)


@dataclass(frozen=True, slots=True, eq=False)
class Forward:
    """A client's request on its way to the controller; also the `reply_to` when it is local."""

    context: RequestContext
    api: ForwardedApi[Any]
    # The client's request as it came, header included: what an envelope carries.
    frame: bytes
    request: Entity
    deadline: Instant
    # The metadata of this node when the request came.
    before: MetadataImage
    # How the request has passed its checks, once the controller of this node has it.
    asked: Asked | None = None
    # Whether an earlier attempt may have been carried out.
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class CallEnded:
    """The outcome of a call; `None`: no controller answered."""

    token: Hashable
    response: Response | None


@dataclass(frozen=True, slots=True)
class ForwardDecided:
    """The local controller decided a forward, or no controller was found in time."""

    forward: Forward
    response: Response


@dataclass(frozen=True, slots=True)
class ForwardAnswered:
    """Another node's controller answered a forward."""

    forward: Forward
    response: bytes
    """The inner response frame of the envelope."""


@dataclass(frozen=True, slots=True)
class ForwardLedHere:
    """A forward concerns the quorum, which this node leads: its quorum answers."""

    forward: Forward


ForwardOutcome = ForwardDecided | ForwardAnswered | ForwardLedHere
Outcome = CallEnded | ForwardOutcome


class ControlLink:
    """Calls and forwards under way."""

    def __init__(
        self,
        *,
        config: NodeConfig,
        apis: Registry[Any],
        controller: Controller | None,
        peers: PeerChannels,
        gate: Gate,
    ) -> None:
        self._node_id = config.node_id
        # For the API that carries a message of our own.
        self._apis = apis
        # The local controller, active or not; None on a node that is only a broker.
        self._controller = controller
        self._peers = peers
        # For forwards that this node decides by itself.
        self._gate = gate
        self._request_timeout_ms = config.broker.request_timeout_ms
        # Of a call that keeps a session, or begins one.
        self._sign_of_life_timeout_ms = min(
            config.broker.request_timeout_ms, config.broker.session_timeout_ms // 2
        )
        # The one that the local controller has, and when to give it up.
        self._own_sign: tuple[Call, Instant] | None = None
        # The quorum's leader, as this node knows; -1 while it knows none.
        self._leader_id = -1
        # The node that the control channel was last used to; -1 at first. Only its channel can
        # have requests under way.
        self._last_used_id = -1
        # Forwards that wait for a controller, with the time of their next attempt.
        self._waiting: list[tuple[Instant, Forward]] = []
        # Outcomes since the last `take_outcomes`.
        self._outcomes: list[Outcome] = []

    @property
    def leader_id(self) -> int:
        """The quorum's leader, as this node knows; -1 while it knows none. The node sets it,
        which fails the requests that are under way to another leader."""
        return self._leader_id

    @leader_id.setter
    def leader_id(self, leader_id: int) -> None:
        self._leader_id = leader_id
        if leader_id >= 0 and self._last_used_id not in (-1, leader_id):
            self._peers.give_up(self._last_used_id, Purpose.CONTROL)
            self._last_used_id = -1

    def call(self, message: Request, token: Hashable, now: Instant) -> None:
        """Makes one attempt; ends in a `CallEnded` with `token`."""
        call = Call(message, token)
        timeout_ms = self._request_timeout_ms
        if call.is_sign_of_life:
            timeout_ms = self._sign_of_life_timeout_ms
        deadline = Instant(now + timeout_ms)
        controller = self._active_controller
        if controller is not None:
            if call.is_sign_of_life:
                self._own_sign = call, deadline
            controller.handle(message, call, now)
        elif self._leader_id < 0 or self._leader_id == self._node_id:
            self._outcomes.append(CallEnded(token, None))
        else:
            entity = self._apis.call(message).request(message)
            self._send(entity, call, deadline)

    def forward(
        self,
        context: RequestContext,
        api: ForwardedApi[Any],
        frame: bytes,
        request: Entity,
        before: MetadataImage,
        now: Instant,
    ) -> None:
        """Has the controller decide a client's request; ends in a `ForwardOutcome`. `before` is
        the metadata of this node."""
        deadline = Instant(now + self._request_timeout_ms)
        self._attempt(Forward(context, api, frame, request, deadline, before), now)

    @property
    def _active_controller(self) -> Controller | None:
        """The local controller, if it is the active one."""
        controller = self._controller
        return controller if controller is not None and controller.active else None

    def _attempt(self, forward: Forward, now: Instant) -> None:
        api, controller = forward.api, self._active_controller
        if controller is None:
            if self._leader_id < 0 or self._leader_id == self._node_id:
                self._retry_later(forward, now)
            else:
                connection = forward.context.connection
                envelope = k58_envelope.request_of(
                    forward.frame,
                    connection.principal,
                    connection.peer_host,
                    is_delegated=connection.is_delegated,
                )
                self._send(envelope, forward, forward.deadline)
            return
        context, request, before = forward.context, forward.request, forward.before
        asked = self._gate.pass_forwarded(api, context, request, before, now)
        if asked.refusal is not None:
            refused = Refused(asked.refusal.code, SENTENCE)
            self._outcomes.append(ForwardDecided(forward, refused))
            return
        forward = replace(forward, asked=asked)
        if isinstance(api, ControllerApi):
            try:
                message = api.message_of(asked.request, context.principal)
            except ProtocolError as fault:
                refused = Refused(fault.code, fault.message)
                self._outcomes.append(ForwardDecided(forward, refused))
                return
            controller.handle(message, forward, now)
        else:
            self._outcomes.append(ForwardLedHere(forward))

    def repeat(self, forward: Forward, now: Instant) -> None:
        """A forward that a controller was given is tried again: it may have been carried out, and
        what became of it is not known."""
        self._retry_later(replace(forward, asked=None, repeated=True), now)

    def _retry_later(self, forward: Forward, now: Instant) -> None:
        if now >= forward.deadline:
            refused = Refused(ErrorCode.REQUEST_TIMED_OUT, "no active controller was found")
            self._outcomes.append(ForwardDecided(forward, refused))
        else:
            self._waiting.append((Instant(now + FORWARD_RETRY_MS), forward))

    def _send(self, entity: Entity, token: Hashable, deadline: Instant) -> None:
        self._last_used_id = self._leader_id
        client_id = f"broker-{self._node_id}"
        self._peers.ask(self._leader_id, Purpose.CONTROL, entity, client_id, token, deadline)

    def on_controller_reply(
        self, reply_to: Call | Forward, response: Response, now: Instant
    ) -> None:
        """The local controller decided."""
        if isinstance(reply_to, Call):
            if reply_to.is_sign_of_life:
                if self._own_sign is None or self._own_sign[0] is not reply_to:
                    # It was given up.
                    return
                self._own_sign = None
            self._outcomes.append(CallEnded(reply_to.token, response))
        elif isinstance(response, Refused) and response.error_code is ErrorCode.NOT_CONTROLLER:
            self.repeat(reply_to, now)
        else:
            self._outcomes.append(ForwardDecided(reply_to, response))

    def on_answered(self, token: Hashable, frame: memoryview | bytes, now: Instant) -> None:
        """A response came over the control channel."""
        if isinstance(token, Call):
            response = self._apis.call(token.message).response(frame)
            self._outcomes.append(CallEnded(token.token, response))
            return
        assert isinstance(token, Forward), f"unexpected token {token!r}"
        outcome = k58_envelope.outcome_of(frame)
        if outcome is ErrorCode.NOT_CONTROLLER:
            self.repeat(token, now)
        elif isinstance(outcome, ErrorCode):
            text = f"the controller refused to open the envelope: {outcome.name}"
            refused = Refused(_TO_CLIENTS.get(outcome, outcome), text)
            self._outcomes.append(ForwardDecided(token, refused))
        else:
            self._outcomes.append(ForwardAnswered(token, outcome))

    def on_failed(self, token: Hashable, now: Instant) -> None:
        """The control channel lost the request."""
        if isinstance(token, Call):
            self._outcomes.append(CallEnded(token.token, None))
        else:
            assert isinstance(token, Forward), f"unexpected token {token!r}"
            self.repeat(token, now)

    def wake(self, now: Instant) -> None:
        """Tries waiting forwards again, and gives up the sign of life that has waited too long."""
        if self._own_sign is not None and self._own_sign[1] <= now:
            self._outcomes.append(CallEnded(self._own_sign[0].token, None))
            self._own_sign = None
        if not self._waiting:
            return
        due = [forward for at, forward in self._waiting if at <= now]
        if due:
            self._waiting = [(at, forward) for at, forward in self._waiting if at > now]
            for forward in due:
                self._attempt(forward, now)

    def deadline(self) -> Instant | None:
        """When a waiting forward is due, or the sign of life is given up."""
        give_up_at = self._own_sign[1] if self._own_sign is not None else None
        return earliest(give_up_at, *(at for at, _ in self._waiting))

    @property
    def has_outcomes(self) -> bool:
        """Whether `take_outcomes` has something."""
        return bool(self._outcomes)

    def take_outcomes(self) -> list[Outcome]:
        """What ended since the last call, in order."""
        outcomes, self._outcomes = self._outcomes, []
        return outcomes
