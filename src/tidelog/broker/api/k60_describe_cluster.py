"""DescribeCluster (60), versions 0-2: the brokers, or the controllers (KIP-919)."""

from tidelog.broker.connections import PendingRequest
from tidelog.broker.context import Broker
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.wire import codec
from tidelog.wire.entities import Entity, field, make, nested
from tidelog.wire.values import error, millis

BROKERS = 1
CONTROLLERS = 2
OPERATIONS_NOT_ASKED = -(2**31)


def handle(broker: Broker, pending: PendingRequest, request: Entity, now: Instant) -> None:
    """Answers from the committed image, or from the voter set."""
    response_type = codec.response_class(60, pending.header.api_version)
    on_controller = pending.connection.listener in broker.config.controller_listener_names
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
            for node_id, voter in broker.quorum.voters.items()
        ]
    else:
        rows = _brokers(broker, pending, field(request, "include_fenced_brokers", False))
    broker_type = nested(response_type, "brokers")
    controller_id = broker.quorum.leader_id if on_controller else broker.any_alive_broker()
    broker.answer(
        pending,
        make(
            response_type,
            throttle_time=millis(0),
            error_code=error(code),
            error_message=message,
            endpoint_type=endpoint_type,
            cluster_id=broker.cluster_id,
            controller_id=controller_id,
            brokers=tuple(
                make(broker_type, broker_id=n, host=host, port=port, rack=rack, is_fenced=fenced)
                for n, host, port, rack, fenced in rows
            ),
            cluster_authorized_operations=OPERATIONS_NOT_ASKED,
        ),
    )


def _brokers(
    broker: Broker, pending: PendingRequest, include_fenced: bool
) -> list[tuple[int, str, int, str | None, bool]]:
    rows = []
    for node_id in sorted(broker.image.brokers):
        registered = broker.image.brokers[node_id]
        end = broker.endpoint(node_id, pending.connection.listener)
        if end is not None and (include_fenced or not registered.fenced):
            rows.append((node_id, end.host, end.port, registered.rack, registered.fenced))
    return rows
