"""What an API asks before anything of a request is validated or looked up.

A declaration lists its checks, and the router passes each request through all of them before its
handler (*AuthorizedFirst*). A check that fails refuses the whole request, or takes out the rows
that are denied: the handler never sees those, so it does not look for their resources.
Their rows come back in the answer, made from the rows of the request and an error code, the same
for what is there and what is not. What an answer lists is cut down to what the client may see.

| check | asks | what is denied |
| --- | --- | --- |
| `Whole` | about the request | the whole answer has the code |
| `Each` | about each row of an array | the row has the code |
| `Inside` | about each row inside of a row | likewise |
| `Listed` | about each row of the answer | left out |
| `Operations` | which operations to show in a row | not shown |
| `InHandler` | nothing: the handler asks its `Access` itself | as its module says |

Topics have names and ids. A name is a secret, so a denied topic has the same code whether it exists
or not; an id is none, so an unknown one goes on to the handler.

Source: KIP-11; `KafkaApis`, `ControllerApis`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, NamedTuple

from tidelog.broker.api.mirroring import Others, mirrored
from tidelog.errors import ErrorCode
from tidelog.metadata.image import MetadataImage
from tidelog.model import ZERO_TOPIC_ID, TopicId
from tidelog.security.authorizer import Access
from tidelog.security.rights import NOT_ASKED, Operation, Requirement, ResourceType, on
from tidelog.wire.acl_values import CLUSTER_NAME
from tidelog.wire.entities import Entity, extended, has_field, nested
from tidelog.wire.entities import field as field_of
from tidelog.wire.values import bytes_of, error, error_of

CODES: Final[Mapping[ResourceType, ErrorCode]] = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""How a denial is answered, by the resource of the last alternative."""

_NO_ERROR: Final = error(ErrorCode.NONE)

Amend = Callable[["Asked", Entity], Entity]
"""From an answer without denied rows to the whole answer."""


class Refusal(NamedTuple):
    """The refusal of a whole request."""

    code: ErrorCode
    blank: int = -1
    renamed: Others = {}


class Asked:
    """A request on its way through the checks of its API."""

    def __init__(
        self, access: Access, image: MetadataImage, request: Entity, response_type: type
    ) -> None:
        self.access = access
        self.image = image
        # What the handler gets; without the rows that are denied.
        self.request = request
        self.response_type = response_type
        # How the whole request is refused; `None` while it is not.
        self.refusal: Refusal | None = None
        # What happens to the answer, in order. They get this object, and do not hold it: that would
        # be a cycle.
        self.amendments: list[Amend] = []

    def refuse(self, code: ErrorCode) -> None:
        """Refuses the whole request."""
        self.refusal = Refusal(code)

    def refused(self) -> Entity:
        """The answer to a request that is refused, where the API has none of its own."""
        assert self.refusal is not None, "the request is not refused"
        code, blank, renamed = self.refusal
        return mirrored(self.response_type, self.request, code, blank=blank, renamed=renamed)

    def leave_out(self, rows: str, array: str, denied: tuple[Entity, ...]) -> None:
        """The handler gets none of these rows, and the answer has these instead."""
        self.request = replace(self.request, **{rows: ()})
        self.amendments.append(lambda _, answer: with_denied(answer, array, denied))

    def amend(self, answer: Entity) -> Entity:
        """The whole answer."""
        for amendment in self.amendments:
            answer = amendment(self, answer)
        return answer

    def name_of(self, row: Any, attribute: str) -> str | None:
        """The name that a row has, or whose id it has; `None` for an id that is unknown."""
        if isinstance(row, str):
            return row
        name: str | None = field_of(row, attribute, None)
        topic_id = TopicId(bytes_of(field_of(row, "topic_id", None)))
        if topic_id == ZERO_TOPIC_ID:
            return name or ""
        topic = self.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name


def with_denied(answer: Entity, array: str, rows: tuple[Entity, ...]) -> Entity:
    """The answer with rows that were denied; an error as a whole has none."""
    if error_of(field_of(answer, "error_code", _NO_ERROR)) is not ErrorCode.NONE:
        return answer
    return extended(answer, array, rows)


When = Callable[[Any], bool]
"""Whether a check is about a request, or about a row."""


def always(_: Any) -> bool:
    """About all of them."""
    return True


class Check:
    """One question about requests of an API."""

    rights: Requirement
    """Alternatives, of which one is enough."""
    in_handler: ClassVar[bool] = False
    without_authorizer: ClassVar[bool] = False
    """Whether there is something to ask even when everything is allowed."""

    def apply(self, asked: Asked) -> None:
        """Asks; takes out what is denied."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True, eq=False)
class Whole(Check):
    """About the request as a whole: the resource that a field names, or the cluster."""

    rights: Requirement
    name: str = ""
    """The field with the name of the resource; none for the cluster."""
    any_name: bool = False
    """Whether any resource of the type will do."""
    when: When = always
    code: ErrorCode | None = None
    blank: int = -1
    renamed: Others = field(default_factory=dict)
    """As `mirrored` takes them, where the API has no refusal of its own."""

    def apply(self, asked: Asked) -> None:
        """Refuses the request."""
        if not self.when(asked.request):
            return
        name = field_of(asked.request, self.name, None) or "" if self.name else ""
        if not asked.access.meets(self.rights, None if self.any_name else name):
            code = self.code or CODES[self.rights[-1].resource]
            asked.refusal = Refusal(code, self.blank, self.renamed)


@dataclass(frozen=True, kw_only=True, eq=False)
class Every(Check):
    """About all names in an array of the request: one that is denied refuses the whole."""

    rights: Requirement
    names: str
    blank: int = -1
    renamed: Others = field(default_factory=dict)

    def apply(self, asked: Asked) -> None:
        """Refuses the request."""
        for name in field_of(asked.request, self.names, None) or ():
            if not asked.access.meets(self.rights, name):
                code = CODES[self.rights[-1].resource]
                asked.refusal = Refusal(code, self.blank, self.renamed)
                return


@dataclass(frozen=True, kw_only=True, eq=False)
class Each(Check):
    """About each row of an array. A null array asks for everything: the answer is cut down."""

    rights: Requirement
    rows: str
    """The array of the request; versions without it are not asked about."""
    name: str = "name"
    answer: str = ""
    """The array of the answer, if it has another name."""
    when: When = always
    about: When = always
    """About which rows it is."""
    shows_name: bool = False
    """Whether a denied row has the name of the topic whose id was given."""
    blank: int = -1
    """Numbers that a denied row has no value for."""
    renamed: Others = field(default_factory=dict)

    def apply(self, asked: Asked) -> None:
        """Takes out rows, and puts them into the answer."""
        if not self.when(asked.request):
            return
        rows = field_of(asked.request, self.rows, ())
        array = self.answer or self.rows
        if rows is None:
            asked.amendments.append(lambda it, answer: self._cut(it, answer, array))
            return
        kept, denied = self.split(asked, rows)
        if not denied:
            return
        asked.request = replace(asked.request, **{self.rows: kept})
        made = self.denied_rows(asked, nested(asked.response_type, array), denied)
        asked.amendments.append(lambda _, answer: with_denied(answer, array, made))

    def split(self, asked: Asked, rows: Iterable[Any]) -> tuple[tuple[Any, ...], list[Any]]:
        """Rows that are allowed, and rows that are not."""
        kept: list[Any] = []
        denied: list[Any] = []
        for row in rows:
            name = asked.name_of(row, self.name)
            about = name is not None and self.about(row)
            may = not about or asked.access.meets(self.rights, name)
            (kept if may else denied).append(row)
        return tuple(kept), denied

    def denied_rows(self, asked: Asked, row_type: type, rows: Iterable[Any]) -> tuple[Entity, ...]:
        """The rows of the answer."""
        code, made = CODES[self.rights[-1].resource], []
        for row in rows:
            entity = mirrored(row_type, row, code, blank=self.blank, renamed=self.renamed)
            if self.shows_name:
                entity = replace(entity, **{self.name: asked.name_of(row, self.name)})
            made.append(entity)
        return tuple(made)

    def cut(self, asked: Asked, rows: Iterable[Entity]) -> tuple[Entity, ...]:
        """The rows of an answer that may be seen."""
        named = [(row, asked.name_of(row, self.name)) for row in rows]
        return tuple(
            row
            for row, name in named
            if name is None or asked.access.meets(self.rights, name, audits=False)
        )

    def _cut(self, asked: Asked, answer: Entity, array: str) -> Entity:
        return replace(answer, **{array: self.cut(asked, getattr(answer, array) or ())})


@dataclass(frozen=True, kw_only=True, eq=False)
class Listed(Each):
    """About each row of the answer, which is cut down."""

    def apply(self, asked: Asked) -> None:
        """Leaves out rows of the answer."""
        if has_field(asked.response_type, self.rows):
            asked.amendments.append(lambda it, answer: self._cut(it, answer, self.rows))


@dataclass(frozen=True, kw_only=True, eq=False)
class ListedInside(Listed):
    """About each row inside of the rows of the answer."""

    outer: str

    def apply(self, asked: Asked) -> None:
        """Leaves out inner rows of the answer."""
        asked.amendments.append(self._cut_all)

    def _cut_all(self, asked: Asked, answer: Entity) -> Entity:
        rows = [self._cut(asked, row, self.rows) for row in getattr(answer, self.outer)]
        return replace(answer, **{self.outer: tuple(rows)})


@dataclass(frozen=True, kw_only=True, eq=False)
class Inside(Check):
    """About each row inside of the rows of an array, which have keys."""

    outer: str
    key: str
    inner: Each

    @property
    def rights(self) -> Requirement:  # type: ignore[override]
        """Those of the inner rows."""
        return self.inner.rights

    def apply(self, asked: Asked) -> None:
        """Takes out inner rows, and puts them into the answer."""
        outer_rows = field_of(asked.request, self.outer, None)
        if outer_rows is None:
            return
        inner, array = self.inner, self.inner.answer or self.inner.rows
        row_type = nested(nested(asked.response_type, self.outer), array)
        kept_rows: list[Entity] = []
        # Of each row, the rows that are denied; `None` where the answer is cut down. A key may come
        # twice, so places count and not keys: answers are in the order of the request.
        more: list[tuple[Entity, ...] | None] = []
        for row in outer_rows:
            rows = getattr(row, inner.rows)
            if rows is None:
                more.append(None)
            else:
                kept, denied = inner.split(asked, rows)
                more.append(inner.denied_rows(asked, row_type, denied))
                row = replace(row, **{inner.rows: kept}) if denied else row
            kept_rows.append(row)
        keys = [getattr(row, self.key) for row in kept_rows]
        asked.request = replace(asked.request, **{self.outer: tuple(kept_rows)})

        def amend(asked: Asked, answer: Entity) -> Entity:
            # Behind those that were asked about are those that an earlier check has denied.
            changed, rows = [], getattr(answer, self.outer)
            assert [getattr(row, self.key) for row in rows[: len(keys)]] == keys, "out of order"
            for place, row in enumerate(rows):
                shown, denied = getattr(row, array), more[place] if place < len(more) else ()
                shown = inner.cut(asked, shown) if denied is None else (*shown, *denied)
                changed.append(replace(row, **{array: shown}))
            return replace(answer, **{self.outer: tuple(changed)})

        asked.amendments.append(amend)


@dataclass(frozen=True, kw_only=True, eq=False)
class Operations(Check):
    """Which operations an answer shows: in each row of an array, or in the answer itself."""

    resource: ResourceType
    shown: str = "authorized_operations"
    rows: str = ""
    name: str = ""
    """The field of a row with its name; a fixed one if there are no rows."""
    rights: Requirement = ()

    def apply(self, asked: Asked) -> None:
        """Replaces what is shown, where it was asked for."""
        asked.amendments.append(self._amended)

    def _amended(self, asked: Asked, answer: Entity) -> Entity:
        access = asked.access
        if not self.rows:
            return self._shown(access, answer, self.name)
        rows = [
            self._shown(access, row, getattr(row, self.name)) for row in getattr(answer, self.rows)
        ]
        return replace(answer, **{self.rows: tuple(rows)})

    def _shown(self, access: Access, entity: Entity, name: str) -> Entity:
        if field_of(entity, self.shown, NOT_ASKED) == NOT_ASKED:
            return entity
        return replace(entity, **{self.shown: access.operations(self.resource, name, asked=True)})


@dataclass(frozen=True, kw_only=True, eq=False)
class InHandler(Check):
    """The handler asks `context.access` itself: its rows are packed by hand."""

    rights: Requirement
    in_handler: ClassVar[bool] = True

    def apply(self, asked: Asked) -> None:
        """Nothing to ask yet."""


def cluster(operation: Operation, **how: Any) -> Whole:
    """A right on the cluster."""
    return Whole(rights=on(operation, ResourceType.CLUSTER), **how)


def group(operation: Operation, **how: Any) -> Whole:
    """A right on the group of the request."""
    return Whole(rights=on(operation, ResourceType.GROUP), name="group_id", **how)


def transaction(**how: Any) -> Whole:
    """WRITE on the transactional id of the request."""
    name = "transactional_id"
    return Whole(
        **{"rights": on(Operation.WRITE, ResourceType.TRANSACTIONAL_ID), "name": name} | how
    )


def topics(operation: Operation, **how: Any) -> Each:
    """A right on each topic of the request."""
    return Each(**{"rights": on(operation, ResourceType.TOPIC), "rows": "topics"} | how)


SHOWN: Final = Operations(
    resource=ResourceType.CLUSTER, shown="cluster_authorized_operations", name=CLUSTER_NAME
)
"""The operations on the cluster, in the answer itself."""
NOTHING: Final[tuple[Check, ...]] = ()
"""What an API requires that everybody may use."""
DENIED_FETCH: Final = {"responses": "topics", "partition_index": "partition"}
"""Where the answer to a quorum's Fetch of version 6 and older has the code."""
CLUSTER_ACTION: Final[tuple[Check, ...]] = (cluster(Operation.CLUSTER_ACTION),)
"""What requests between the nodes of a cluster need."""


def pass_checks(
    checks: Iterable[Check],
    access: Access,
    image: MetadataImage,
    request: Entity,
    response_type: type,
) -> Asked:
    """Passes a request through checks, up to one that refuses it. Before the entries of the
    metadata are known, only super users are answered."""
    asked = Asked(access, image, request, response_type)
    for check in checks:
        if access.is_unlimited and not check.without_authorizer:
            continue
        if not access.is_known:
            asked.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            check.apply(asked)
        if asked.refusal is not None:
            break
    return asked
