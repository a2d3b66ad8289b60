"""What an API is: one declaration for each API that a listener serves.

The router, the control link and the documentation read declarations. A declaration has the key, the
listeners, the versions, the rights, and who answers. The kinds of declaration differ in who
answers:

| kind | who answers |
| --- | --- |
| `LocalApi` | this node, from a decoded request |
| `HotApi` | this node, from the bytes: Produce, Fetch and logins are parsed by hand |
| `ControllerApi` | the active controller; a broker forwards the request |
| `QuorumQueryApi` | the quorum's leader, at once, from what it knows; a broker forwards |
| `VoterChangeApi` | the quorum's leader, when it is committed; a broker forwards |
| `QuorumApi` | this node's replica of the metadata log |
| `EnvelopeApi` | the active controller; it wraps a client's request from a broker |

The router matches a declaration by its kind, and mypy checks that no kind is forgotten.

The type parameters tie the parts of a declaration together. `NodeT` is what a handler needs of its
node, a protocol of `broker/api/needs.py`. A `ControllerApi` has one message type and one result
type: a function that takes the result of another API does not type-check.

The forms of errors: a `ControllerApi` and a `QuorumQueryApi` have `refusal_of` for a request that
is refused as a whole; a `LocalApi` puts errors into its answer by itself, and has `unsupported`
if clients with unknown versions get an answer, which is ApiVersions alone (KIP-511).

Invariant: a declaration is a constant of its module, and never changes.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Final, Generic, TypeVar

from tidelog.broker.api.answers import Answer, NodeT, refused_plainly
from tidelog.broker.api.checks import CLUSTER_ACTION, Check, cluster
from tidelog.broker.connections import RequestContext
from tidelog.broker.long_answers import Pieces
from tidelog.controller import messages as controller_messages
from tidelog.controller.messages import Refused
from tidelog.env.disk import Buffer
from tidelog.env.effects import Chunk
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.kraft import codec as quorum_codec
from tidelog.kraft import messages as quorum_messages
from tidelog.kraft.messages import VoterChangeResponse
from tidelog.model import ANONYMOUS, Principal
from tidelog.security.rights import Operation
from tidelog.wire import codec
from tidelog.wire.api import ApiKey, RequestHeader
from tidelog.wire.api import VersionRange as VersionRange
from tidelog.wire.entities import Entity, field, make
from tidelog.wire.shapes import Shape
from tidelog.wire.values import error, error_of

MessageT = TypeVar("MessageT", bound=controller_messages.Request)
ResultT = TypeVar("ResultT", bound=controller_messages.Response)
RequestT = TypeVar("RequestT", bound=quorum_messages.Request)
ResponseT = TypeVar("ResponseT", bound=quorum_messages.Response)

_NO_ERROR: Final = error(ErrorCode.NONE)


class Listener(Enum):
    """The kinds of listeners, which serve different APIs."""

    BROKER = "broker"
    CONTROLLER = "controller"


BROKERS: Final = (Listener.BROKER,)
CONTROLLERS: Final = (Listener.CONTROLLER,)
BROKERS_AND_CONTROLLERS: Final = (Listener.BROKER, Listener.CONTROLLER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What every kind of declaration has."""

    answered_by: ClassVar[str]
    """Who answers, in words."""

    key: ApiKey
    doc: str
    """What the API does and where it differs from Kafka's: the text of its module."""
    listeners: tuple[Listener, ...]
    versions: VersionRange
    """The versions that are served."""
    advertised_from: int | None = None
    """The first version that ApiVersions lists, if it is lower than what is served."""
    sent_version: int | None = None
    """The version that our own nodes send; `None` for an API that they never call."""
    requires: tuple[Check, ...]
    """What is asked before a request is handled: all of it must be allowed. There is no default:
    an API that everybody may use says so (`checks.NOTHING`)."""
    name: str = dataclasses.field(init=False)
    """Kafka's name: `CreateTopics`. Kept, because every request says it (`env/steps.py`)."""

    def __post_init__(self) -> None:
        name = "".join(word.capitalize() for word in self.key.name.split("_"))
        object.__setattr__(self, "name", name)

    @property
    def advertised(self) -> VersionRange:
        """The versions that ApiVersions lists."""
        if self.advertised_from is None:
            return self.versions
        return VersionRange(self.advertised_from, self.versions.max_version)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalApi(Declaration, Generic[NodeT]):
    """Answered by this node, at once or later, through `context.answer`. A handler whose work grows
    with what was asked for is a generator (`broker/long_answers.py`)."""

    answered_by: ClassVar = "this node"

    handle: Callable[[NodeT, RequestContext, Entity, Instant], Pieces | None]
    is_held: bool = False
    """Whether a request waits until this broker has caught up (`broker/held_questions.py`)."""
    unsupported: Callable[[NodeT, RequestContext], None] | None = None
    """Answers a request of an unknown version; without it the connection is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HotApi(Declaration, Generic[NodeT]):
    """Answered by this node; the handler parses the frame, whose body begins at an offset."""

    answered_by: ClassVar = "this node"

    handle: Callable[[NodeT, RequestContext, memoryview, int, Instant], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerApi(Declaration, Generic[NodeT, MessageT, ResultT]):
    """Decided by the active controller. Entities become messages and results become entities.

    With a `sent_version`, our own nodes send the message too."""

    answered_by: ClassVar = "the active controller"

    message: Shape[MessageT]
    result: Answer[NodeT, ResultT]
    refusal_of: Callable[[type, Entity, Refused], Entity] = refused_plainly
    """The answer when the request is refused as a whole: its entity class, the request, why."""

    def message_of(self, request: Entity, principal: Principal = ANONYMOUS) -> MessageT:
        """The controller's message; one that has a `requester` says who asks."""
        return self.message.read(request, {"requester": principal})

    def answer(
        self, node: NodeT, version: int, request: Entity, response: controller_messages.Response
    ) -> Entity:
        """The answer to a request in its version."""
        response_type: type = codec.response_class(self.key, version)
        if isinstance(response, Refused):
            return self.refusal_of(response_type, request, response)
        result_type = self.result.shape.value_type
        assert isinstance(response, result_type), f"{self.name} was answered by {response!r}"
        return self.result.entity_of(node, response_type, request, response)

    def request(self, message: MessageT) -> Entity:
        """A request of our own, in the version that is sent."""
        assert self.sent_version is not None, f"{self.name} is never sent"
        request_type = codec.request_class(self.key, self.sent_version)
        return make(request_type, **self.message.write(message))

    def response(self, frame: Buffer) -> ResultT | Refused:
        """The value of an answer to a request of our own. Raises `MalformedFrame`."""
        assert self.sent_version is not None, f"{self.name} is never sent"
        _, entity = codec.decode_response(self.key, self.sent_version, frame)
        return self.response_of(entity)

    def response_of(self, entity: Entity) -> ResultT | Refused:
        """The value of an answer to a request of our own."""
        code = error_of(field(entity, "error_code", _NO_ERROR))
        if code is not ErrorCode.NONE:
            return Refused(code, field(entity, "error_message", None) or code.name)
        return self.result.shape.read(entity)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumQueryApi(Declaration, Generic[NodeT]):
    """Answered by the quorum's leader from what it knows."""

    answered_by: ClassVar = "the quorum's leader"

    entity_of: Callable[[NodeT, type, Entity, Instant], Entity]
    """From the answer's entity class and the request."""
    refusal_of: Callable[[type, Entity, Refused], Entity]
    """The answer when no leader was found: its entity class, the request, why."""

    def answer(self, node: NodeT, version: int, request: Entity, now: Instant) -> Entity:
        """The answer to a request in its version."""
        return self.entity_of(node, codec.response_class(self.key, version), request, now)

    def refuse(self, version: int, request: Entity, refused: Refused) -> Entity:
        """The answer to a request in its version, when no leader was found."""
        return self.refusal_of(codec.response_class(self.key, version), request, refused)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterChangeApi(Declaration):
    """Decided by the quorum's leader, for an administrator where nothing else is declared.
    `kraft/codec.py` knows the entities of all of them."""

    answered_by: ClassVar = "the quorum's leader"

    listeners: tuple[Listener, ...] = BROKERS_AND_CONTROLLERS
    requires: tuple[Check, ...] = (cluster(Operation.ALTER),)

    def answer(self, version: int, response: VoterChangeResponse) -> Entity:
        """The answer to a request in its version."""
        return quorum_codec.response_to_entity(self.key, response, version)

    def refuse(self, version: int, _: Entity, refused: Refused) -> Entity:
        """The answer to a request in its version, when no leader was found."""
        return self.answer(version, VoterChangeResponse(refused.error_code, refused.message))


def request_of_entity(header: RequestHeader, frame: memoryview, offset: int) -> Any:
    """`request_of` of a request that is an entity. Raises `ProtocolError`."""
    return quorum_codec.request_of(codec.decode_request(header, frame, offset))


def reply_of_entity(header: RequestHeader, response: Any) -> list[Chunk]:
    """`reply_of` of a response that becomes an entity of the request's version."""
    entity = quorum_codec.response_to_entity(header.api_key, response, header.api_version)
    return [codec.encode_response(header, entity)]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumApi(Declaration, Generic[RequestT, ResponseT]):
    """A request between replicas of the metadata log."""

    answered_by: ClassVar = "this node's replica of the metadata log"

    listeners: tuple[Listener, ...] = CONTROLLERS
    requires: tuple[Check, ...] = CLUSTER_ACTION
    request_of: Callable[[RequestHeader, memoryview, int], RequestT]
    """From the frame, whose body begins at an offset. Raises `ProtocolError` for a request that is
    refused, `MalformedFrame` for bytes that are none."""
    reply_of: Callable[[RequestHeader, ResponseT], list[Chunk]]
    """The framed reply to the request with this header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvelopeApi(Declaration):
    """Carries a client's request from a broker to the active controller."""

    answered_by: ClassVar = "the active controller"


ForwardedApi = ControllerApi[NodeT, Any, Any] | QuorumQueryApi[NodeT] | VoterChangeApi
"""What brokers forward to the active controller, whose node leads the quorum."""

Api = LocalApi[NodeT] | HotApi[NodeT] | ForwardedApi[NodeT] | QuorumApi[Any, Any] | EnvelopeApi
"""Any declaration of a node that meets `NodeT`."""
