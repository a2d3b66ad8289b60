"""ListConfigResources (74), versions 0-1: what has, or could have, configs (KIP-1142).

Version 0 lists subscriptions to metrics of clients, of which there are none. From version 1 on the
client names types, none for all of them: topics, brokers, the loggers of brokers, and groups that
have values of their own. The names of topics are all those of the cluster, whether or not they have
overrides.
"""

from typing import Final

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import cluster
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasImage
from tidelog.broker.connections import RequestContext
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.metadata.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    MetadataImage,
)
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field


def handle(node: HasImage, context: RequestContext, request: Entity, now: Instant) -> None:
    """Answers from the committed image."""
    names = _names(node.image)
    kinds = field(request, "resource_types", (CLIENT_METRICS_RESOURCE,)) or names
    if not set(kinds) <= set(names):
        code = ErrorCode.UNSUPPORTED_VERSION
        context.answer(reply(context.response_type, error_code=code, config_resources=[]))
        return
    rows = [
        {"resource_name": name, "resource_type": kind}
        for kind in dict.fromkeys(kinds)
        for name in names[kind]
    ]
    context.answer(reply(context.response_type, config_resources=rows))


def _names(image: MetadataImage) -> dict[int, list[str]]:
    """The resources of each type that can be asked for."""
    brokers = [str(node_id) for node_id in sorted(image.brokers) if image.is_alive(node_id)]
    return {
        TOPIC_RESOURCE: sorted(image.topics_by_name),
        BROKER_RESOURCE: brokers,
        BROKER_LOGGER_RESOURCE: brokers,
        CLIENT_METRICS_RESOURCE: [],
        GROUP_RESOURCE: [
            each.name for each in sorted(image.configs) if each.resource_type == GROUP_RESOURCE
        ],
    }


API: Final = LocalApi(
    key=ApiKey.LIST_CONFIG_RESOURCES,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 1),
    requires=(cluster(Operation.DESCRIBE_CONFIGS),),
    handle=handle,
    is_held=True,
)
