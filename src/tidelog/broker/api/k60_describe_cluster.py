"""DescribeCluster (60), versions 0-2: the brokers, or the controllers (KIP-919)."""

from typing import Final, Protocol

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import SHOWN
from tidelog.broker.api.cluster_rows import any_alive_broker
from tidelog.broker.api.declaration import BROKERS as BROKER_LISTENERS
from tidelog.broker.api.declaration import LocalApi, VersionRange
from tidelog.broker.api.needs import HasClusterId, HasConfig, HasImage, HasQuorum
from tidelog.broker.connections import RequestContext
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.model import Endpoint
from tidelog.security.rights import ResourceType, authorized_operations
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field, has_field

BROKERS = 1
CONTROLLERS = 2


class Node(HasClusterId, HasConfig, HasImage, HasQuorum, Protocol):
    """What DescribeCluster needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Answers from the committed image, or from the voter set."""
    on_controller = context.listener in node.config.controller_listener_names
    endpoint_type = field(request, "endpoint_type", BROKERS)
    code, message = ErrorCode.NONE, None
    rows: list[dict[str, object]] = []
    if endpoint_type not in (BROKERS, CONTROLLERS):
        code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        message = f"endpoint type `{endpoint_type}` is neither brokers nor controllers"
    elif (endpoint_type == CONTROLLERS) != on_controller:
        # Version 0 does not know that there are two types.
        is_known = has_field(request.__class__, "endpoint_type")
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE if is_known else ErrorCode.INVALID_REQUEST
        message = "the listener serves the other endpoint type"
    elif on_controller:
        voters = node.quorum.voters.items()
        rows = [_row(n, voter.endpoints[0], rack=None, fenced=False) for n, voter in voters]
    else:
        rows = _brokers(node, context, field(request, "include_fenced_brokers", False))
    if code is not ErrorCode.NONE:
        failed = {"error_code": code, "error_message": message, "cluster_id": "", "brokers": ()}
        context.answer(reply(context.response_type, **failed))
        return
    controller_id = node.quorum.leader_id if on_controller else any_alive_broker(node)
    context.answer(
        reply(
            context.response_type,
            error_code=code,
            error_message=message,
            endpoint_type=endpoint_type,
            cluster_id=node.cluster_id,
            controller_id=controller_id,
            brokers=rows,
            cluster_authorized_operations=authorized_operations(
                ResourceType.CLUSTER,
                asked=field(request, "include_cluster_authorized_operations", False),
            ),
        )
    )


def _row(node_id: int, end: Endpoint, *, rack: str | None, fenced: bool) -> dict[str, object]:
    address = {"host": end.host, "port": end.port}
    return {"broker_id": node_id, **address, "rack": rack, "is_fenced": fenced}


def _brokers(node: Node, context: RequestContext, include_fenced: bool) -> list[dict[str, object]]:
    rows = []
    for node_id in sorted(node.image.brokers):
        registered = node.image.brokers[node_id]
        end = node.image.endpoint(node_id, context.listener)
        if end is not None and (include_fenced or not registered.fenced):
            rows.append(_row(node_id, end, rack=registered.rack, fenced=registered.fenced))
    return rows


API: Final = LocalApi(
    key=ApiKey.DESCRIBE_CLUSTER,
    doc=__doc__,
    listeners=BROKER_LISTENERS,
    versions=VersionRange(0, 2),
    requires=(SHOWN,),
    handle=handle,
)
