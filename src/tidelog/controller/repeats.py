"""What the answer to a repeated request really says.

Theory. A broker forwards an administrator's request to the active controller and repeats it when
the controller changes or the connection is lost. The first one may have been carried out all the
same: its records were appended, or even committed, and only the answer was lost. Nothing in Kafka's
records says which request wrote them, so the next controller refuses the repetition in good faith:
a topic exists, is unknown, or has that many partitions already. Kafka's brokers pass that refusal
on (KIP-590); ours compare what the request asked for with their own metadata before it was first
sent and now. What was not so before, and is exactly so now, is its own outcome, and reported as the
success that it is.

Another client may have asked for the very same at the same time. Then both receive a success,
which is what each of them finds.

A refusal may be ahead of this broker's metadata; then nothing can be said yet (`None`), and the
request is repeated after a while.

Left out: requests that may be repeated anyhow, because their second answer is that of the first
(configs, features, new targets of reassignments); changes of voters, which are not in the metadata.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from tidelog.controller import messages
from tidelog.controller import topic_messages as topics
from tidelog.controller.assignments import assignment_of
from tidelog.controller.messages import Refused, Request, Response
from tidelog.errors import ErrorCode
from tidelog.metadata.image import MetadataImage, PartitionImage, TopicImage
from tidelog.model import ZERO_TOPIC_ID


class _NotYet(Exception):
    """The metadata does not show yet what an answer speaks of."""


def settle(
    before: MetadataImage, after: MetadataImage, request: Request, answer: Response
) -> Response | None:
    """The answer to a request that was made more than once. `before` is older than the first time,
    `after` is what is known now. `None` when the answer speaks of what is not known yet."""
    if isinstance(answer, Refused):
        return _settle_unregistration(before, after, request, answer)
    judge = _JUDGES.get(type(request))
    try:
        return answer if judge is None else judge(before, after, request, answer)
    except _NotYet:
        return None


def _settle_unregistration(
    before: MetadataImage, after: MetadataImage, request: Request, answer: Refused
) -> Response | None:
    if not isinstance(request, messages.UnregisterBroker):
        return answer
    is_unknown = answer.error_code is ErrorCode.BROKER_ID_NOT_REGISTERED
    if not is_unknown or request.broker_id not in before.brokers:
        return answer
    return None if request.broker_id in after.brokers else messages.UnregisterBrokerResult()


# Topics ------------------------------------------------------------------------------------


def _created(
    before: MetadataImage,
    after: MetadataImage,
    request: topics.CreateTopics,
    answer: topics.CreateTopicsResult,
) -> topics.CreateTopicsResult:
    if request.validate_only:
        return answer
    wishes = {wish.name: wish for wish in request.topics}
    results = []
    for result in answer.topics:
        topic = after.topic(result.name)
        if result.error_code is ErrorCode.TOPIC_ALREADY_EXISTS and not before.topic(result.name):
            if topic is None:
                raise _NotYet
            if _is_as_wished(after, topic, wishes[result.name]):
                result = replace(result, error_code=ErrorCode.NONE, message=None)
        if result.error_code is ErrorCode.NONE and topic is not None:
            result = replace(
                result,
                topic_id=topic.topic_id,
                num_partitions=len(topic.partitions),
                replication_factor=len(topic.partitions[0].replicas),
                configs=after.topic_configs(result.name),
            )
        results.append(result)
    return topics.CreateTopicsResult(tuple(results))


def _is_as_wished(image: MetadataImage, topic: TopicImage, wish: topics.NewTopic) -> bool:
    partitions, factor = topic.partitions, len(topic.partitions[0].replicas)
    if wish.assignments:
        placed = {number: partition.replicas for number, partition in partitions.items()}
        is_placed = placed == dict(wish.assignments)
    else:
        is_placed = wish.num_partitions in (-1, len(partitions)) and (
            wish.replication_factor in (-1, factor)
        )
    return is_placed and image.topic_configs(topic.name) == dict(wish.configs)


def _deleted(
    before: MetadataImage,
    after: MetadataImage,
    _: topics.DeleteTopics,
    answer: topics.DeleteTopicsResult,
) -> topics.DeleteTopicsResult:
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
    results = []
    for result in answer.topics:
        by_id = result.topic_id != ZERO_TOPIC_ID
        topic = (
            before.topics_by_id.get(result.topic_id) if by_id else before.topic(result.name or "")
        )
        if result.error_code in unknown and topic is not None:
            if topic.topic_id in after.topics_by_id:
                raise _NotYet
            result = topics.DeletedTopic(topic.name, topic.topic_id, ErrorCode.NONE)
        results.append(result)
    return topics.DeleteTopicsResult(tuple(results))


def _grown(
    before: MetadataImage,
    after: MetadataImage,
    request: topics.CreatePartitions,
    answer: topics.CreatePartitionsResult,
) -> topics.CreatePartitionsResult:
    if request.validate_only:
        return answer
    counts = {wish.name: wish.count for wish in request.topics}
    results = []
    for result in answer.topics:
        old, new = before.topic(result.name), after.topic(result.name)
        is_refused = result.error_code is ErrorCode.INVALID_PARTITIONS
        if is_refused and old is not None and new is not None:
            wanted = counts[result.name]
            if len(old.partitions) < wanted == len(new.partitions):
                result = topics.MorePartitionsResult(result.name, ErrorCode.NONE)
            elif len(old.partitions) < wanted and len(new.partitions) < wanted:
                raise _NotYet
        results.append(result)
    return topics.CreatePartitionsResult(tuple(results))


# Partitions --------------------------------------------------------------------------------


def _partitions(
    before: MetadataImage, after: MetadataImage, topic: str, number: int
) -> tuple[PartitionImage, PartitionImage] | None:
    old, new = before.topic(topic), after.topic(topic)
    if old is None or new is None or number not in old.partitions:
        return None
    return old.partitions[number], new.partitions[number]


def _elected(
    before: MetadataImage,
    after: MetadataImage,
    _: messages.ElectLeaders,
    answer: messages.ElectLeadersResult,
) -> messages.ElectLeadersResult:
    results = []
    for result in answer.results:
        pair = _partitions(before, after, result.topic, result.partition)
        if result.error_code is ErrorCode.ELECTION_NOT_NEEDED and pair is not None:
            old, new = pair
            if new.leader != old.leader:
                result = messages.ElectionResult(result.topic, result.partition, ErrorCode.NONE)
        results.append(result)
    return messages.ElectLeadersResult(tuple(results))


def _reassigned(
    before: MetadataImage,
    after: MetadataImage,
    _: messages.AlterReassignments,
    answer: messages.AlterReassignmentsResult,
) -> messages.AlterReassignmentsResult:
    results = []
    for result in answer.results:
        pair = _partitions(before, after, result.topic, result.partition)
        is_refused = result.error_code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        if is_refused and pair is not None and assignment_of(pair[0]).in_progress:
            if assignment_of(pair[1]).in_progress:
                raise _NotYet
            if pair[1].replicas == assignment_of(pair[0]).origin:
                result = messages.ReassignmentResult(result.topic, result.partition, ErrorCode.NONE)
        results.append(result)
    return messages.AlterReassignmentsResult(tuple(results))


_JUDGES: Final[dict[type, Callable[[MetadataImage, MetadataImage, Any, Any], Response]]] = {
    topics.CreateTopics: _created,
    topics.DeleteTopics: _deleted,
    topics.CreatePartitions: _grown,
    messages.ElectLeaders: _elected,
    messages.AlterReassignments: _reassigned,
}
"""By the message of a request."""
