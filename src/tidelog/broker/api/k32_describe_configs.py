"""DescribeConfigs (32), versions 1-4: topics, brokers and groups, with where each value comes from.

A broker describes itself (by its id) or the cluster-wide dynamic defaults (by the empty name);
another broker's id is INVALID_REQUEST, clients ask that broker. A node has one logger, whose level
does not change, and no subscriptions to metrics of clients. A group need not exist.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from tidelog.broker.api.answers import reply
from tidelog.broker.api.config_rows import ConfigRows, Row, config_rights
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasConfig, HasImage
from tidelog.broker.connections import RequestContext
from tidelog.broker.long_answers import Pieces
from tidelog.config import (
    BrokerOverrides,
    DescribedConfig,
    NodeConfig,
    describe_broker_config,
    describe_cluster_defaults,
    describe_group_config,
    describe_loggers,
    describe_topic_config,
)
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.limits import CONFIG_ANSWER_WORK, PARTITION_ANSWER_WORK
from tidelog.metadata.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ConfigResource,
    MetadataImage,
)
from tidelog.metadata.topic_names import code_of_unknown
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import ArrayWriter, Entity, field, nested
from tidelog.wire.primitives import Encoded
from tidelog.wire.shapes import Shape

CONFIG: Final = Shape(
    DescribedConfig, source="config_source", sensitive="is_sensitive", type="config_type"
)


class Node(HasConfig, HasImage, Protocol):
    """What DescribeConfigs needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> Pieces:
    """Answers every resource, each with its own error, from the image of this moment."""
    left_out: dict[str, object] = {}
    if not field(request, "include_synonyms", False):
        left_out["synonyms"] = ()
    if not field(request, "include_documentation", False):
        left_out["documentation"] = None
    image = node.image
    results = ArrayWriter(context.response_type, "results")
    rows = ConfigRows(nested(context.response_type, "results"))
    for resource in request.resources:
        code, message = ErrorCode.NONE, ""
        configs: Encoded | Sequence[Row] = ()
        known = len(rows)
        try:
            configs = _configs(node.config, image, resource, left_out, rows)
        except ProtocolError as fault:
            code, message = fault.code, fault.message
        results.add(
            error_code=code,
            error_message=message or None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=configs,
        )
        is_new = configs.__class__ is not Encoded or len(rows) > known
        yield CONFIG_ANSWER_WORK if is_new else PARTITION_ANSWER_WORK
    context.answer(reply(context.response_type, results=results.array()))


def _configs(
    config: NodeConfig,
    image: MetadataImage,
    resource: Entity,
    left_out: dict[str, object],
    rows: ConfigRows,
) -> Encoded | Sequence[Row]:
    name, wanted = resource.resource_name, resource.configuration_keys or ()

    def described() -> list[Row]:
        return [
            CONFIG.write(item) | left_out
            for item in _describe(config, image, resource)
            if not wanted or item.name in wanted
        ]

    if resource.resource_type != TOPIC_RESOURCE:
        return described()
    if name not in image.topics_by_name:
        raise ProtocolError(code_of_unknown(name), f"topic `{name}` does not exist")
    return rows.of(image.topic_configs(name), described, *wanted)


def _describe(config: NodeConfig, image: MetadataImage, resource: Entity) -> list[DescribedConfig]:
    name, own_id = resource.resource_name, config.node_id
    overrides = BrokerOverrides(
        own=image.broker_configs(own_id), default=image.broker_configs(None)
    )
    kind = resource.resource_type
    if kind == TOPIC_RESOURCE:
        return describe_topic_config(image.topic_configs(name), config, overrides)
    if kind == BROKER_RESOURCE and name == "":
        return describe_cluster_defaults(overrides.default)
    if kind == CLIENT_METRICS_RESOURCE and name:
        # There are no subscriptions.
        return []
    if kind == GROUP_RESOURCE and name:
        own = image.configs.get(ConfigResource(GROUP_RESOURCE, name), {})
        return describe_group_config(own, config, overrides)
    if kind not in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE):
        text = f"resource type `{kind}` with the name `{name}` has no configs"
        raise ProtocolError(ErrorCode.INVALID_REQUEST, text)
    if name != str(own_id):
        text = f"broker `{name}` was asked of broker `{own_id}`"
        raise ProtocolError(ErrorCode.INVALID_REQUEST, text)
    if kind == BROKER_LOGGER_RESOURCE:
        return describe_loggers()
    return describe_broker_config(config, overrides)


API: Final = LocalApi(
    key=ApiKey.DESCRIBE_CONFIGS,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(1, 4),
    requires=config_rights(Operation.DESCRIBE_CONFIGS, "results"),
    handle=handle,
    is_held=True,
)
