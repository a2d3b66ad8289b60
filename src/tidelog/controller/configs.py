"""Changes of topic and broker configs (IncrementalAlterConfigs).

Rules. A resource is all or nothing; resources of one request do not affect each other. What is
validated is the value that results, so that a bad value fails and deleting an unknown name does
not. Writing what is there already writes nothing for topics, but does for brokers: they reload
files on it (KAFKA-14136).

With eligible leader replicas the min ISR decides who stays eligible. So the cluster-wide
`min.insync.replicas` is pinned in the metadata and cannot be removed, single brokers cannot have
one, and any change of it forgets the ELRs that were built under the old value. Except those that
a partition without a leader waits for: Kafka forgets these too, and with them the partition. The
cluster's value and that of a topic in one request are two batches, each decided by the other.

The older AlterConfigs carries all the values of a resource; what it does not name is deleted.

A group's values may be set before the group exists.

Left out: client metrics; the bounds of brokers for values of groups, which coordinators apply.

Source: KIP-339, KIP-966; Kafka's configuration control.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tidelog.config import (
    PropertyType,
    validate_broker_config,
    validate_group_config,
    validate_topic_config,
)
from tidelog.config.group_properties import GROUP_PROPERTIES
from tidelog.config.property_types import Property
from tidelog.config.resolve import default_text
from tidelog.config.tls_properties import store_property
from tidelog.config.topic_properties import TOPIC_PROPERTIES, TOPIC_SYNONYMS
from tidelog.controller.elect_leaders import decide_unclean, may_allow_unclean
from tidelog.controller.elections import PartitionChange, effective_min_isr
from tidelog.controller.events import Cause, CauseKind, ConfigsAltered
from tidelog.controller.messages import (
    ConfigChange,
    ConfigOperation,
    ConfigResourceChange,
    ConfigResourceResult,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsResult,
)
from tidelog.controller.records import config_record, partition_change_record
from tidelog.controller.slices import Slices, a_slice
from tidelog.controller.view import MIN_INSYNC_REPLICAS, ControllerDecision, View
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.limits import MAX_CHANGES_PER_TURN, MAX_TEXT_BYTES
from tidelog.metadata.image import (
    BROKER_RESOURCE,
    CLUSTER_DEFAULT,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ConfigResource,
)
from tidelog.metadata.records import ClearElrRecord, MetadataRecord
from tidelog.metadata.topic_names import name_fault
from tidelog.model import NO_LEADER

ConfigValues = Mapping[str, str | None]
"""New values by name; `None` removes the config."""


def decide_alter_configs(view: View, request: IncrementalAlterConfigs) -> Slices:
    """Decides every resource of the request, some a slice, and elects where a leader that may lack
    records is allowed now."""
    named = Counter((item.resource_type, item.resource_name) for item in request.resources)
    results: list[ConfigResourceResult] = []
    records: list[MetadataRecord] = []
    was_default = False
    for number, item in enumerate(request.resources):
        # Which ELRs are forgotten rests on the min ISR of the cluster and of the topic. So each of
        # the two is decided by what the other has become.
        is_default = (item.resource_type, item.resource_name) == CLUSTER_DEFAULT
        is_alone, was_default = is_default or was_default, is_default
        if number and (is_alone or number % MAX_CHANGES_PER_TURN == 0):
            view = yield a_slice(records)
            records = []
        result, added = _result_of(view, item, request, named)
        if len(records) + len(added) > view.config.max_records_per_batch:
            view = yield a_slice(records)
            records = []
            result, added = _result_of(view, item, request, named)
        results.append(result)
        if result.error_code is ErrorCode.NONE and not request.validate_only:
            records += added
            view.trace.event(_altered(item))
    response = IncrementalAlterConfigsResult(tuple(results))
    last = ControllerDecision(response, records, atomic=False)
    if not may_allow_unclean(request):
        return last
    view = yield last
    return (yield from decide_unclean(view, Cause(CauseKind.UNCLEAN_ALLOWED)))


def _result_of(
    view: View,
    item: ConfigResourceChange,
    request: IncrementalAlterConfigs,
    named: Mapping[tuple[int, str], int],
) -> tuple[ConfigResourceResult, list[MetadataRecord]]:
    """What one resource is answered, and the records of its change."""
    name = (item.resource_type, item.resource_name)
    try:
        if named[name] > 1:
            text = "Each resource must appear at most once."
            raise ProtocolError(ErrorCode.INVALID_REQUEST, text)
        records = _decide_resource(view, item, replaces=request.replaces)
        view.check_atomic(records)
    except ProtocolError as error:
        return ConfigResourceResult(*name, error.code, error.message), []
    return ConfigResourceResult(*name, ErrorCode.NONE, None), records


def _altered(item: ConfigResourceChange) -> ConfigsAltered:
    return ConfigsAltered(
        resource_type=item.resource_type,
        resource_name=item.resource_name,
        names=",".join(change.name for change in item.changes),
    )


def new_topic_config_records(
    view: View, topic: str, configs: Mapping[str, str]
) -> list[MetadataRecord]:
    """The records that give a topic about to be created its configs.

    Raises `ProtocolError(INVALID_CONFIG)`.
    """
    resource = ConfigResource(TOPIC_RESOURCE, topic)
    _validate(view, resource, configs)
    return [config_record(resource, name, value) for name, value in configs.items()]


def _decide_resource(
    view: View, item: ConfigResourceChange, *, replaces: bool
) -> list[MetadataRecord]:
    resource = _existing(view, item)
    current = view.image.configs.get(resource, {})
    written = _operate(resource, item.changes, current)
    if not resource.name and resource.resource_type in (GROUP_RESOURCE, TOPIC_RESOURCE):
        kind = "group" if resource.resource_type == GROUP_RESOURCE else "topic"
        text = f"Default {kind} resources are not allowed."
        raise ProtocolError(ErrorCode.INVALID_REQUEST, text)
    is_topic = resource.resource_type == TOPIC_RESOURCE
    if is_topic and (fault := name_fault(resource.name)) is not None:
        raise ProtocolError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {fault}.")
    if replaces:
        kept = {change.name for change in item.changes}
        written = {**{name: None for name in current if name not in kept}, **written}
    _validate(view, resource, written)
    if is_topic and view.image.topic(resource.name) is None:
        text = f"The topic '{resource.name}' does not exist."
        raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    records: list[MetadataRecord] = [
        config_record(resource, name, value) for name, value in written.items()
    ]
    if MIN_INSYNC_REPLICAS in written and view.image.elr_enabled:
        topic = resource.name if is_topic else ""
        own = {name: v for name, v in {**current, **written}.items() if v is not None}
        image = replace(view.image, configs={**view.image.configs, resource: own})
        records += _forgotten_elrs(replace(view, image=image), topic)
    return records


def _forgotten_elrs(after: View, topic: str) -> list[MetadataRecord]:
    """The records that forget the ELRs of a topic, or with `""` of all, where the ISR suffices to
    commit with the min ISR of `after`.

    Where it does not, nothing is committed, before or after, and who is eligible lacks nothing. To
    forget them, as Apache Kafka does, would leave one copy of what was acknowledged. So it is for
    a partition without a leader, which no other replica may ever lead.
    """
    image = after.image
    topics = [found] if (found := image.topic(topic)) else list(image.topics_by_id.values())
    records: list[MetadataRecord] = []
    any_waits = False
    for one in topics:
        for number, partition in one.partitions.items():
            if not (partition.eligible_leaders or partition.last_known_eligible_leaders):
                continue
            min_isr = effective_min_isr(after.min_isr(one.name), partition.replicas)
            if partition.leader == NO_LEADER or len(partition.isr) < min_isr:
                any_waits = True
                continue
            change = PartitionChange(eligible_leaders=(), last_known_eligible_leaders=())
            records.append(partition_change_record(one.topic_id, number, change))
    return records if any_waits else [ClearElrRecord(topic_name=topic)]


def _existing(view: View, item: ConfigResourceChange) -> ConfigResource:
    """The resource; of a topic is looked at last whether it exists, as in Kafka."""
    name = item.resource_name
    if item.resource_type == BROKER_RESOURCE:
        known = {str(broker_id) for broker_id in view.image.brokers}
        if name and not (name.isascii() and name.isdigit()):
            text = f"Invalid broker name '{name}': a broker id is a number."
            raise ProtocolError(ErrorCode.INVALID_REQUEST, text)
        if name and name not in known:
            raise ProtocolError(
                ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker with id {name} found."
            )
    elif item.resource_type not in (GROUP_RESOURCE, TOPIC_RESOURCE):
        text = f"Unsupported config resource type {item.resource_type}."
        raise ProtocolError(ErrorCode.INVALID_REQUEST, text)
    return ConfigResource(item.resource_type, name)


def _operate(
    resource: ConfigResource, changes: Sequence[ConfigChange], current: Mapping[str, str]
) -> ConfigValues:
    """The values to write, after all operations."""
    names = [change.name for change in changes]
    if len(set(names)) != len(names):
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys.")
    written: dict[str, str | None] = {}
    for change in changes:
        old = current.get(change.name)
        new = _new_value(resource, change, old)
        if new != old or resource.resource_type == BROKER_RESOURCE:
            written[change.name] = new
    return written


def _new_value(resource: ConfigResource, change: ConfigChange, old: str | None) -> str | None:
    try:
        operation = ConfigOperation(change.operation)
    except ValueError:
        text = f"Unknown config operation {change.operation}."
        raise ProtocolError(ErrorCode.INVALID_REQUEST, text) from None
    if operation is ConfigOperation.DELETE:
        return None
    if change.value is None:
        text = f"Null value not supported for: {change.name}"
        raise ProtocolError(ErrorCode.INVALID_REQUEST, text)
    if operation is ConfigOperation.SET:
        return change.value
    prop = _property(resource, change.name)
    if prop is None or prop.type is not PropertyType.LIST:
        text = f"Can't {operation.name} to key {change.name} because its type is not LIST."
        raise ProtocolError(ErrorCode.INVALID_CONFIG, text)
    # Operations on lists start from the default while none is set.
    items = [item for item in (old or default_text(prop) or "").split(",") if item]
    for item in change.value.split(","):
        if operation is ConfigOperation.APPEND and item not in items:
            items.append(item)
        elif operation is ConfigOperation.SUBTRACT and item in items:
            items.remove(item)
    return ",".join(items)


def _property(resource: ConfigResource, name: str) -> Property | None:
    if resource.resource_type == TOPIC_RESOURCE:
        return TOPIC_PROPERTIES.get(name)
    if resource.resource_type == GROUP_RESOURCE:
        return GROUP_PROPERTIES.get(name)
    return TOPIC_SYNONYMS[name][0] if name in TOPIC_SYNONYMS else None


def _validate(view: View, resource: ConfigResource, written: ConfigValues) -> None:
    """Raises `ProtocolError(INVALID_CONFIG)` unless the resource may have these values."""
    kind = resource.resource_type
    for name, value in written.items():
        if name == MIN_INSYNC_REPLICAS and view.image.elr_enabled and kind == BROKER_RESOURCE:
            _check_pinned(resource, value)
        if value is None:
            continue
        if len(value.encode()) > MAX_TEXT_BYTES:
            text = f"The value of {name} is longer than {MAX_TEXT_BYTES}."
            raise ProtocolError(ErrorCode.INVALID_CONFIG, text)
        if kind == BROKER_RESOURCE and not resource.name and store_property(name) is not None:
            text = f"Key stores are those of one broker, so its id must be given: {name}"
            raise ProtocolError(ErrorCode.INVALID_REQUEST, text)
        _VALIDATE[kind](name, value)


_VALIDATE: Final[Mapping[int, Callable[[str, str], None]]] = {
    TOPIC_RESOURCE: validate_topic_config,
    BROKER_RESOURCE: validate_broker_config,
    GROUP_RESOURCE: validate_group_config,
}


def _check_pinned(resource: ConfigResource, value: str | None) -> None:
    if resource.name:
        text = "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
        raise ProtocolError(ErrorCode.INVALID_CONFIG, text)
    if value is None:
        text = "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
        raise ProtocolError(ErrorCode.INVALID_CONFIG, text)
