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
(configs, features, new targets of reassignments); changes of voters, which are not in the metadata;
delegation tokens, which only who knows the secret can find.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeAlias

from tidelog.controller import messages
from tidelog.controller import topic_messages as topics
from tidelog.controller.acl_messages import DeleteAcls, DeletedAcls
from tidelog.controller.assignments import assignment_of
from tidelog.controller.elect_leaders import needs_election
from tidelog.controller.elections import Election
from tidelog.controller.messages import Refused, Request, Response
from tidelog.errors import ErrorCode
from tidelog.metadata.acls import entry_of, matches
from tidelog.metadata.image import MetadataImage, PartitionImage, TopicImage
from tidelog.model import ZERO_TOPIC_ID

_Judge: TypeAlias = Callable[[Any], Any]
"""From one result of an answer to what it really says."""


class _NotYet(Exception):
    """The metadata does not show yet what an answer speaks of."""


def settle(
    before: MetadataImage, after: MetadataImage, request: Request, answer: Response
) -> Response | None:
    """The answer to a request that was made more than once. `before` is older than the first time,
    `after` is what is known now. `None` when the answer speaks of what is not known yet."""
    if isinstance(answer, Refused):
        return _settle_unregistration(before, after, request, answer)
    if type(request) not in _JUDGES or getattr(request, "validate_only", False):
        return answer
    judge = _JUDGES[type(request)](before, after, request)
    listed: Any = answer
    try:
        settled: Response = type(listed)(tuple(map(judge, listed[0])))
    except _NotYet:
        return None
    return settled


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


def _created(before: MetadataImage, after: MetadataImage, request: topics.CreateTopics) -> _Judge:
    wishes = {wish.name: wish for wish in request.topics}

    def judge(result: topics.NewTopicResult) -> topics.NewTopicResult:
        topic = after.topic(result.name)
        if result.error_code is ErrorCode.TOPIC_ALREADY_EXISTS and not before.topic(result.name):
            if topic is None:
                raise _NotYet
            if _is_as_wished(after, topic, wishes[result.name]):
                result = replace(result, error_code=ErrorCode.NONE, message=None)
        if result.error_code is not ErrorCode.NONE or topic is None:
            return result
        return replace(
            result,
            topic_id=topic.topic_id,
            num_partitions=len(topic.partitions),
            replication_factor=len(topic.partitions[0].replicas),
            configs=after.topic_configs(result.name),
        )

    return judge


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


def _deleted(before: MetadataImage, after: MetadataImage, _: topics.DeleteTopics) -> _Judge:
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)

    def judge(result: topics.DeletedTopic) -> topics.DeletedTopic:
        by_id = result.topic_id != ZERO_TOPIC_ID
        topic = (
            before.topics_by_id.get(result.topic_id) if by_id else before.topic(result.name or "")
        )
        if result.error_code not in unknown or topic is None:
            return result
        if topic.topic_id in after.topics_by_id:
            raise _NotYet
        return topics.DeletedTopic(topic.name, topic.topic_id, ErrorCode.NONE)

    return judge


def _grown(before: MetadataImage, after: MetadataImage, request: topics.CreatePartitions) -> _Judge:
    counts = {wish.name: wish.count for wish in request.topics}

    def judge(result: topics.MorePartitionsResult) -> topics.MorePartitionsResult:
        old, new = before.topic(result.name), after.topic(result.name)
        if result.error_code is not ErrorCode.INVALID_PARTITIONS or old is None or new is None:
            return result
        wanted = counts[result.name]
        if len(old.partitions) >= wanted or len(new.partitions) > wanted:
            return result
        if len(new.partitions) < wanted:
            raise _NotYet
        return topics.MorePartitionsResult(result.name, ErrorCode.NONE)

    return judge


# Partitions --------------------------------------------------------------------------------


def _partitions(
    before: MetadataImage, after: MetadataImage, topic: str, number: int
) -> tuple[PartitionImage, PartitionImage] | None:
    """As it was and as it is; `None` unless it is the same topic that has it both times."""
    old, new = before.topic(topic), after.topic(topic)
    if old is None or new is None or old.topic_id != new.topic_id or number not in old.partitions:
        return None
    return old.partitions[number], new.partitions[number]


def _elected(before: MetadataImage, after: MetadataImage, request: messages.ElectLeaders) -> _Judge:
    election = Election[messages.ElectionType(request.election_type).name]

    def judge(result: messages.ElectionResult) -> messages.ElectionResult:
        pair = _partitions(before, after, result.topic, result.partition)
        if result.error_code is not ErrorCode.ELECTION_NOT_NEEDED or pair is None:
            return result
        if needs_election(pair[1], election):
            raise _NotYet
        if pair[0].leader == pair[1].leader:
            return result
        return messages.ElectionResult(result.topic, result.partition, ErrorCode.NONE)

    return judge


def _reassigned(
    before: MetadataImage, after: MetadataImage, _: messages.AlterReassignments
) -> _Judge:
    def judge(result: messages.ReassignmentResult) -> messages.ReassignmentResult:
        pair = _partitions(before, after, result.topic, result.partition)
        is_refused = result.error_code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        if not is_refused or pair is None or not assignment_of(pair[0]).in_progress:
            return result
        if assignment_of(pair[1]).in_progress:
            raise _NotYet
        if pair[1].replicas != assignment_of(pair[0]).origin:
            return result
        return messages.ReassignmentResult(result.topic, result.partition, ErrorCode.NONE)

    return judge


# Users and rights --------------------------------------------------------------------------


def _altered_scram(
    before: MetadataImage, after: MetadataImage, request: messages.AlterScramCredentials
) -> _Judge:
    deleted = {each.name: each.mechanism for each in request.deletions}

    def judge(result: messages.ScramResult) -> messages.ScramResult:
        mechanism = deleted.get(result.name)
        is_refused = result.error_code is ErrorCode.RESOURCE_NOT_FOUND
        if not is_refused or mechanism is None:
            return result
        if before.scram_credential(result.name, mechanism) is None:
            return result
        if after.scram_credential(result.name, mechanism) is not None:
            raise _NotYet
        return messages.ScramResult(result.name)

    return judge


def _deleted_acls(before: MetadataImage, after: MetadataImage, request: DeleteAcls) -> _Judge:
    filters = iter(request.filters)

    def judge(result: DeletedAcls) -> DeletedAcls:
        wanted = next(filters)
        if result.error_code is not ErrorCode.NONE:
            return result
        found = list(result.found)
        for acl_id, record in before.acls.items():
            entry = entry_of(record)
            if entry in found or not matches(wanted, entry):
                continue
            if acl_id in after.acls:
                raise _NotYet
            found.append(entry)
        return result._replace(found=tuple(found))

    return judge


_JUDGES: Final[dict[type, Callable[[MetadataImage, MetadataImage, Any], _Judge]]] = {
    topics.CreateTopics: _created,
    topics.DeleteTopics: _deleted,
    topics.CreatePartitions: _grown,
    messages.ElectLeaders: _elected,
    messages.AlterReassignments: _reassigned,
    messages.AlterScramCredentials: _altered_scram,
    DeleteAcls: _deleted_acls,
}
"""By the message of a request; the answers to these are lists of results."""
