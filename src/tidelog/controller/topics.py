"""Topics and partitions come and go: CreateTopics, CreatePartitions, DeleteTopics.

Rules. One request is one atomic batch, whatever happens to its single topics: each succeeds or
fails by itself, and only the successful ones write records. A topic's records stand in the order
topic, configs, partitions. A new partition's ISR is its live replicas, its leader the first of
them, both epochs 0. `validate_only` decides all of it and writes nothing.

Many partitions are placed and encoded in slices (`slices.py`), and appended in one batch at the
end, if the brokers and the topics that the request names are as they were at the beginning;
otherwise it all begins anew, a few times, and then without slices.

Within one request a later topic sees the earlier ones: names may collide among them too. Two
names collide when they differ only in `.` and `_`, because metric names fold the two.

Source: KIP-4, KIP-195, KIP-516 (topic ids); Kafka's replication control.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NoReturn

from tidelog.controller.configs import new_topic_config_records
from tidelog.controller.events import TopicCreated, TopicDeleted, TopicGrown
from tidelog.controller.placement import StripedPlacer, usable_brokers
from tidelog.controller.slices import Slices, Steps, in_slices
from tidelog.controller.topic_building import Built, build, collisions, folded
from tidelog.controller.topic_messages import (
    CreatePartitions,
    CreatePartitionsResult,
    CreateTopics,
    CreateTopicsResult,
    DeletedTopic,
    DeleteTopics,
    DeleteTopicsResult,
    MorePartitions,
    MorePartitionsResult,
    NewTopic,
    NewTopicResult,
    TopicRef,
)
from tidelog.controller.view import ControllerDecision, View
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.limits import MAX_PARTITIONS, MAX_PARTITIONS_PER_REQUEST
from tidelog.metadata.image import PartitionImage, TopicImage
from tidelog.metadata.records import MetadataRecord, RemoveTopicRecord, TopicRecord
from tidelog.metadata.topic_names import name_fault
from tidelog.model import INTERNAL_TOPICS, METADATA_TOPIC, ZERO_TOPIC_ID, TopicId, uuid_to_text

# Creation ----------------------------------------------------------------------------------


def decide_create_topics(view: View, request: CreateTopics) -> Slices:
    """Decides every topic of the request.

    Raises `ProtocolError(POLICY_VIOLATION)` for more partitions or records than one request may
    have, or more partitions than the cluster may.
    """
    count = sum(_wanted_partitions(view, topic) for topic in request.topics)
    _check_partition_count(view, count)
    names = [topic.name for topic in request.topics]
    results, built = yield from build(
        view, names, lambda view, built: _create_topics(view, built, request)
    )
    view = built.view
    _check_partition_count(view, count)
    response = CreateTopicsResult(tuple(results))
    if request.validate_only:
        return ControllerDecision(response)
    view.check_atomic(built.records)
    for result in results:
        if result.error_code is ErrorCode.NONE:
            event = TopicCreated(
                topic=result.name,
                topic_id=uuid_to_text(result.topic_id),
                partitions=result.num_partitions,
                replicas=result.replication_factor,
            )
            view.trace.event(event)
    return ControllerDecision(response, built.records, encoded=built.encoded)


def _create_topics(view: View, built: Built, request: CreateTopics) -> Steps[list[NewTopicResult]]:
    results: list[NewTopicResult] = []
    names = Counter(topic.name for topic in request.topics)
    taken = collisions(view)
    for topic in {topic.name: topic for topic in request.topics}.values():
        count = len(built.records)
        try:
            if names[topic.name] > 1:
                raise ProtocolError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            _check_name(view, topic.name, taken)
            result = yield from _create_topic(view, built, topic)
            taken.setdefault(folded(topic.name), topic.name)
        except ProtocolError as error:
            built.cut(count)
            result = NewTopicResult(topic.name, error.code, error.message)
        results.append(result)
    return results


def _create_topic(view: View, built: Built, topic: NewTopic) -> Steps[NewTopicResult]:
    configs = _creation_configs(topic)
    config_records = new_topic_config_records(view, topic.name, configs)
    factor, partitions = _manual(view, topic) if topic.assignments else _automatic(view, topic)
    topic_id = _new_topic_id(view)
    built.records += [TopicRecord(name=topic.name, topic_id=topic_id), *config_records]
    count = yield from built.add(topic_id, 0, partitions)
    return NewTopicResult(
        topic.name,
        ErrorCode.NONE,
        topic_id=topic_id,
        num_partitions=count,
        replication_factor=factor,
        configs=configs,
    )


def _creation_configs(topic: NewTopic) -> dict[str, str]:
    without_value = [name for name, value in topic.configs if value is None]
    if without_value:
        text = f"Null value not supported for topic configs: {','.join(without_value)}"
        raise ProtocolError(ErrorCode.INVALID_CONFIG, text)
    return {name: value for name, value in topic.configs if value is not None}


def _manual(view: View, topic: NewTopic) -> tuple[int, Iterable[PartitionImage]]:
    if topic.replication_factor != -1 or topic.num_partitions != -1:
        name = "replication factor" if topic.replication_factor != -1 else "numPartitions"
        text = f"A manual partition assignment was specified, but {name} was not set to -1."
        raise ProtocolError(ErrorCode.INVALID_REQUEST, text)
    by_number = dict(topic.assignments)
    if len(by_number) != len(topic.assignments):
        _refuse_assignment("Found multiple manual partition assignments for one partition.")
    if sorted(by_number) != list(range(len(by_number))):
        _refuse_assignment("partitions should be a consecutive 0-based integer sequence")
    assignments = [by_number[number] for number in range(len(by_number))]
    factor = len(assignments[0])
    return factor, _assigned(view, assignments, factor)


def _automatic(view: View, topic: NewTopic) -> tuple[int, Iterable[PartitionImage]]:
    factor, count = topic.replication_factor, topic.num_partitions
    if factor < -1 or factor == 0:
        text = "Replication factor must be larger than 0, or -1 to use the default value."
        raise ProtocolError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    if count < -1 or count == 0:
        text = "Number of partitions was set to an invalid non-positive value."
        raise ProtocolError(ErrorCode.INVALID_PARTITIONS, text)
    factor = view.config.default_replication_factor if factor == -1 else factor
    return factor, _placed(view, _wanted_partitions(view, topic), factor)


def _wanted_partitions(view: View, topic: NewTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return (
        view.config.num_partitions if topic.num_partitions == -1 else max(0, topic.num_partitions)
    )


# Names and ids -----------------------------------------------------------------------------


def _check_name(view: View, name: str, taken: dict[str, str]) -> None:
    if name == METADATA_TOPIC:
        text = f"Creation of internal topic {METADATA_TOPIC} is prohibited."
        raise ProtocolError(ErrorCode.INVALID_REQUEST, text)
    complaint = name_fault(name)
    if complaint is not None:
        text = f"Topic name is invalid: {complaint}"
        raise ProtocolError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    if view.image.topic(name) is not None:
        raise ProtocolError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = taken.get(folded(name))
    if other is not None:
        text = f"Topic '{name}' collides with existing topic: {other}"
        raise ProtocolError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)


def _new_topic_id(view: View) -> TopicId:
    while True:
        topic_id = TopicId(view.prng.uuid())
        # A text that begins with a dash would look like an option to command lines.
        if topic_id not in view.image.topics_by_id and not uuid_to_text(topic_id).startswith("-"):
            return topic_id


# Partitions --------------------------------------------------------------------------------


def decide_create_partitions(view: View, request: CreatePartitions) -> Slices:
    """Decides every topic of the request.

    Raises `ProtocolError(POLICY_VIOLATION)` for more partitions or records than one request may
    have, or more partitions than the cluster may.
    """
    count = sum(_added_partitions(view, topic) for topic in request.topics)
    _check_partition_count(view, count)
    names = [topic.name for topic in request.topics]
    results, built = yield from build(
        view, names, lambda view, built: _grow_topics(view, built, request)
    )
    view = built.view
    _check_partition_count(view, count)
    response = CreatePartitionsResult(tuple(results))
    if request.validate_only:
        return ControllerDecision(response)
    view.check_atomic(built.records)
    for topic, result in zip(request.topics, results, strict=True):
        if result.error_code is ErrorCode.NONE:
            view.trace.event(TopicGrown(topic=topic.name, partitions=topic.count))
    return ControllerDecision(response, built.records, encoded=built.encoded)


def _grow_topics(
    view: View, built: Built, request: CreatePartitions
) -> Steps[list[MorePartitionsResult]]:
    results: list[MorePartitionsResult] = []
    names = Counter(topic.name for topic in request.topics)
    for topic in request.topics:
        count = len(built.records)
        try:
            if names[topic.name] > 1:
                raise ProtocolError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            yield from _create_partitions(view, built, topic)
            results.append(MorePartitionsResult(topic.name, ErrorCode.NONE))
        except ProtocolError as error:
            built.cut(count)
            results.append(MorePartitionsResult(topic.name, error.code, error.message))
    return results


def _added_partitions(view: View, wanted: MorePartitions) -> int:
    topic = view.image.topic(wanted.name)
    return 0 if topic is None else max(0, wanted.count - len(topic.partitions))


def _create_partitions(view: View, built: Built, wanted: MorePartitions) -> Steps[None]:
    topic = view.image.topic(wanted.name)
    if topic is None:
        text = f"The topic '{wanted.name}' does not exist."
        raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    if wanted.name in INTERNAL_TOPICS:
        # The number says which partition has a group, a transactional id, a share partition. With
        # another one all that a coordinator knows would be looked for where it never was.
        text = f"The number of partitions of the internal topic {wanted.name} is fixed."
        raise ProtocolError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    present = len(topic.partitions)
    if wanted.count == present:
        text = f"Topic already has {present} partition(s)."
        raise ProtocolError(ErrorCode.INVALID_PARTITIONS, text)
    if wanted.count < present:
        text = (
            f"The topic {wanted.name} currently has {present} partition(s); "
            f"{wanted.count} would not be an increase."
        )
        raise ProtocolError(ErrorCode.INVALID_PARTITIONS, text)
    added = wanted.count - present
    factor = len(topic.partitions[0].replicas)
    if wanted.assignments is None:
        partitions = _placed(view, added, factor)
    elif len(wanted.assignments) != added:
        _refuse_assignment(
            f"Attempted to add {added} additional partition(s), but only "
            f"{len(wanted.assignments)} assignment(s) were specified."
        )
    else:
        partitions = _assigned(view, wanted.assignments, factor)
    yield from built.add(topic.topic_id, present, partitions)


def _placed(view: View, count: int, factor: int) -> Iterator[PartitionImage]:
    placer = StripedPlacer(usable_brokers(view.image.brokers.values(), view.departing), view.prng)
    # The placer puts the leader on a live broker. Partitions in one place begin alike.
    known: dict[tuple[int, ...], PartitionImage] = {}
    for _ in range(count):
        replicas = placer.place(factor)
        partition = known.get(replicas)
        if partition is None:
            partition = known[replicas] = _new_partition(view, replicas)
        yield partition


def _assigned(
    view: View, assignments: Sequence[tuple[int, ...]], factor: int
) -> Iterator[PartitionImage]:
    for replicas in assignments:
        _check_assignment(view, replicas, factor)
        yield _new_partition(view, replicas)


def _check_assignment(view: View, replicas: tuple[int, ...], factor: int) -> None:
    prefix = "The manual partition assignment includes"
    if not replicas:
        _refuse_assignment(f"{prefix} an empty replica list.")
    for replica in sorted(replicas):
        if replica not in view.image.brokers:
            _refuse_assignment(f"{prefix} broker {replica}, but no such broker is registered.")
        if replicas.count(replica) > 1:
            _refuse_assignment(f"{prefix} the broker {replica} more than once.")
    if len(replicas) != factor:
        _refuse_assignment(
            f"{prefix} a partition with {len(replicas)} replica(s), but this is not consistent "
            f"with previous partitions, which have {factor} replica(s)."
        )
    if not any(map(view.is_active, replicas)):
        _refuse_assignment(
            "All brokers specified in the manual partition assignment "
            f"{list(replicas)} are fenced or in controlled shutdown."
        )


def _new_partition(view: View, replicas: tuple[int, ...]) -> PartitionImage:
    isr = tuple(filter(view.is_active, replicas))
    return PartitionImage(
        replicas=replicas,
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=tuple(view.directory_of(replica) for replica in replicas),
    )


# Deletion ----------------------------------------------------------------------------------


def decide_delete_topics(view: View, request: DeleteTopics) -> Slices:
    """Decides every topic of the request. A topic goes as a whole, thousands of topics go in
    slices: what a new controller finds is deleted, and the rest is asked for again.

    Raises `ProtocolError(TOPIC_DELETION_DISABLED)` when no topic may be deleted.
    """
    if not view.config.delete_topic_enable:
        raise ProtocolError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
    results: list[DeletedTopic] = []
    # Their names and ids.
    deleted: set[str | TopicId | None] = set()

    def delete(view: View, ref: TopicRef) -> MetadataRecord | None:
        try:
            if ref.name in deleted or ref.topic_id in deleted:
                text = "The topic is named twice in the request."
                raise ProtocolError(ErrorCode.INVALID_REQUEST, text)
            topic = _referenced(view, ref)
        except ProtocolError as error:
            results.append(DeletedTopic(ref.name, ref.topic_id, error.code, error.message))
            return None
        deleted.update((topic.name, topic.topic_id))
        results.append(DeletedTopic(topic.name, topic.topic_id, ErrorCode.NONE))
        topic_id = uuid_to_text(topic.topic_id)
        view.trace.event(TopicDeleted(topic=topic.name, topic_id=topic_id))
        return RemoveTopicRecord(topic_id=topic.topic_id)

    _, records, _ = yield from in_slices(view, request.topics, delete)
    return ControllerDecision(DeleteTopicsResult(tuple(results)), records, atomic=False)


def _referenced(view: View, ref: TopicRef) -> TopicImage:
    if (ref.name is None) == (ref.topic_id == ZERO_TOPIC_ID):
        text = "A topic is given by its name or by its id, and not by both."
        raise ProtocolError(ErrorCode.INVALID_REQUEST, text)
    if ref.name is not None:
        topic = view.image.topic(ref.name)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    else:
        topic = view.image.topics_by_id.get(ref.topic_id)
        code = ErrorCode.UNKNOWN_TOPIC_ID
    if topic is None:
        raise ProtocolError(code, "This server does not host this topic.")
    return topic


# Bounds ------------------------------------------------------------------------------------


def _check_partition_count(view: View, count: int) -> None:
    """Others may be created while a request is decided, so both ends of that are checked."""
    text = ""
    present = sum(len(topic.partitions) for topic in view.image.topics_by_id.values())
    if count > MAX_PARTITIONS_PER_REQUEST:
        text = (
            f"The request would create {count} partitions, and the maximum of partitions per "
            f"request is {MAX_PARTITIONS_PER_REQUEST}. Nothing was created; ask for them in "
            "several requests."
        )
    elif count and present + count > MAX_PARTITIONS:
        text = (
            f"The request would create {count} partitions, the cluster has {present}, and the "
            f"maximum of partitions in a cluster is {MAX_PARTITIONS}. Nothing was created."
        )
    if text:
        raise ProtocolError(ErrorCode.POLICY_VIOLATION, text)


def _refuse_assignment(text: str) -> NoReturn:
    raise ProtocolError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
