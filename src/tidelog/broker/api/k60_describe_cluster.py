"""DescribeCluster (60), versions 0-2: the brokers, or the controllers (KIP-919)."""

from typing import Final, Protocol

from tidelog.broker.api.answers import reply
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, LocalApi, VersionRange
from tidelog.broker.api.named_brokers import OPERATIONS_NOT_ASKED, any_alive_broker
from tidelog.broker.api.needs import HasClusterId, HasConfig, HasImage, HasQuorum
from tidelog.broker.connections import RequestContext
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field, make, nested
from tidelog.wire.values import error

BROKERS = 1
CONTROLLERS = 2


class Node(HasClusterId, HasConfig, HasImage, HasQuorum, Protocol):
    """What DescribeCluster needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Answers from the committed image, or from the voter set."""
    response_type = context.response_type
    on_controller = context.listener in node.config.controller_listener_names
    endpoint_type = field(request, "endpoint_type", BROKERS)
    code, message = ErrorCode.NONE, None
    rows: list[tuple[int, str, int, str | None, bool]] = []
    if endpoint_type not in (BROKERS, CONTROLLERS):
        code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        message = f"endpoint type `{endpoint_type}` is neither brokers nor controllers"
    elif (endpoint_type == CONTROLLERS) != on_controller:
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        message = "the listener serves the other endpoint type"
    elif on_controller:
        rows = [
            (node_id, voter.endpoints[0].host, voter.endpoints[0].port, None, False)
            for node_id, voter in node.quorum.voters.items()
        ]
    else:
        rows = _brokers(node, context, field(request, "include_fenced_brokers", False))
    broker_type = nested(response_type, "brokers")
    controller_id = node.quorum.leader_id if on_controller else any_alive_broker(node)
    context.answer(
        reply(
            response_type,
            error_code=error(code),
            error_message=message,
            endpoint_type=endpoint_type,
            cluster_id=node.cluster_id,
            controller_id=controller_id,
            brokers=tuple(
                make(broker_type, broker_id=n, host=host, port=port, rack=rack, is_fenced=fenced)
                for n, host, port, rack, fenced in rows
            ),
            cluster_authorized_operations=OPERATIONS_NOT_ASKED,
        )
    )


def _brokers(
    node: Node, context: RequestContext, include_fenced: bool
) -> list[tuple[int, str, int, str | None, bool]]:
    rows = []
    for node_id in sorted(node.image.brokers):
        registered = node.image.brokers[node_id]
        end = node.image.endpoint(node_id, context.listener)
        if end is not None and (include_fenced or not registered.fenced):
            rows.append((node_id, end.host, end.port, registered.rack, registered.fenced))
    return rows


API: Final = LocalApi(
    key=ApiKey.DESCRIBE_CLUSTER,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(0, 2),
    requires=(on(Operation.ALTER, ResourceType.CLUSTER, condition="controller listener"),),
    handle=handle,
)
