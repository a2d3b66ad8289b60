"""Declarations that must not type-check; `make check` runs mypy over this file.

Each error is expected by an `ignore`. Where mypy finds none, it reports the `ignore` as unused, and
the check fails.
"""

from typing import Protocol

from tidelog.broker.api import k19_create_topics as k19
from tidelog.broker.api import k20_delete_topics as k20
from tidelog.broker.api import k60_describe_cluster as k60
from tidelog.broker.api.answers import Answer
from tidelog.broker.api.checks import NOTHING
from tidelog.broker.api.declaration import CONTROLLERS, ControllerApi, LocalApi, VersionRange
from tidelog.broker.api.registry import Registry
from tidelog.broker.connections import RequestContext
from tidelog.broker.context import Broker
from tidelog.controller.topic_messages import CreateTopics, CreateTopicsResult, DeleteTopicsResult
from tidelog.env.instant import Instant
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.shapes import Shape

_VERSIONS = VersionRange(0, 0)

# The right one, for comparison.
RIGHT = ControllerApi(
    key=ApiKey.CREATE_TOPICS,
    doc="",
    listeners=CONTROLLERS,
    versions=_VERSIONS,
    message=k19.MESSAGE,
    result=Answer(Shape(CreateTopicsResult), k19.entity_of),
    requires=NOTHING,
)

NO_RIGHTS = ControllerApi(  # type: ignore[call-arg]
    key=ApiKey.CREATE_TOPICS,
    doc="",
    listeners=CONTROLLERS,
    versions=_VERSIONS,
    message=k19.MESSAGE,
    result=Answer(Shape(CreateTopicsResult), k19.entity_of),
)

OTHER_RESULT = ControllerApi(
    key=ApiKey.CREATE_TOPICS,
    doc="",
    listeners=CONTROLLERS,
    versions=_VERSIONS,
    message=k19.MESSAGE,
    result=Answer(Shape(DeleteTopicsResult), k19.entity_of),  # type: ignore[arg-type]
    requires=NOTHING,
)

OTHER_MESSAGE = ControllerApi[k19.Node, CreateTopics, CreateTopicsResult](
    key=ApiKey.CREATE_TOPICS,
    doc="",
    listeners=CONTROLLERS,
    versions=_VERSIONS,
    message=k20.MESSAGE,  # type: ignore[arg-type]
    result=k19.RESULT,
    requires=NOTHING,
)


class TooMuch(Protocol):
    """A part that no node has."""

    @property
    def crystal_ball(self) -> str:
        """What will be asked next."""


def handle(node: TooMuch, context: RequestContext, request: Entity, now: Instant) -> None:
    """Needs what no node has."""


NEEDS_TOO_MUCH = LocalApi(
    key=ApiKey.DESCRIBE_CLUSTER,
    doc="",
    listeners=CONTROLLERS,
    versions=_VERSIONS,
    handle=handle,
    requires=NOTHING,
)
OF_A_NODE: Registry[Broker] = Registry((k60.API, NEEDS_TOO_MUCH))  # type: ignore[arg-type]
