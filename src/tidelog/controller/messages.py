"""What brokers and clients ask of the controller, and what it answers: version-free values.

A handler (`broker/api/`) turns one wire request into one value of `Request`, gives it to
`Controller.handle(request, reply_to, now)`, and later finds `Reply(reply_to, response)` in
`Controller.take_outputs()`. The answer is either the request's own result or `Refused`: the whole
request failed with one code, and the handler spreads that code over the reply as its API demands
(a top-level code where the API has one, otherwise one per topic or resource). Codes of single
topics, partitions or resources travel inside the results.

An answer that reports a change leaves only after the change is committed, and answers leave in
the order in which their requests were decided.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from tidelog.controller.acl_messages import (
    CreateAcls,
    CreateAclsResult,
    DeleteAcls,
    DeleteAclsResult,
)
from tidelog.controller.quota_messages import AlterClientQuotas, AlterClientQuotasResult
from tidelog.controller.token_messages import (
    CreateToken,
    CreateTokenResult,
    ExpireToken,
    RenewToken,
    TokenExpiry,
)
from tidelog.controller.topic_messages import (
    CreatePartitions,
    CreatePartitionsResult,
    CreateTopics,
    CreateTopicsResult,
    DeleteTopics,
    DeleteTopicsResult,
)
from tidelog.errors import ErrorCode
from tidelog.metadata.partition_changes import IsrMember as IsrMember
from tidelog.metadata.partition_changes import IsrResult as IsrResult
from tidelog.metadata.partition_changes import ReplicaDirectory as ReplicaDirectory
from tidelog.model import Endpoint, TopicId, Uuid


class FeatureRange(NamedTuple):
    """The levels of one feature that a node can work with, both ends included."""

    min_level: int
    max_level: int


# Requests ----------------------------------------------------------------------------------


class RegisterBroker(NamedTuple):
    """A broker process introduces itself (BrokerRegistration, API 62)."""

    broker_id: int
    cluster_id: str
    incarnation_id: Uuid
    """Drawn anew by each process."""
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    features: Mapping[str, FeatureRange]
    """Must name `metadata.version`."""
    log_dirs: tuple[Uuid, ...]
    previous_broker_epoch: int = -1
    """The epoch found in `.kafka_cleanshutdown`; -1: the last stop was not clean."""


class BrokerHeartbeat(NamedTuple):
    """A registered broker is alive, and the state that it wants (API 63)."""

    broker_id: int
    broker_epoch: int
    current_metadata_offset: int
    """The last metadata offset that the broker has applied."""
    want_fence: bool
    want_shut_down: bool
    offline_log_dirs: tuple[Uuid, ...] = ()


class IsrProposal(NamedTuple):
    """A leader's wish for the ISR of one partition."""

    topic_id: TopicId
    partition: int
    leader_epoch: int
    partition_epoch: int
    new_isr: tuple[IsrMember, ...]
    recovering: bool = False


class AlterPartition(NamedTuple):
    """ISR changes proposed by one leader broker (API 56)."""

    broker_id: int
    broker_epoch: int
    proposals: tuple[IsrProposal, ...]


class ConfigOperation(IntEnum):
    """What to do with one config (wire numbers)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """One operation on one config; `operation` is the raw wire number."""

    name: str
    operation: int
    value: str | None

    def __repr__(self) -> str:
        """Without the value: it may be a password."""
        return f"ConfigChange({self.name}, {self.operation})"


class ConfigResourceChange(NamedTuple):
    """All operations on one resource: type 2 is a topic, 4 a broker ("" is every broker)."""

    resource_type: int
    resource_name: str
    changes: tuple[ConfigChange, ...]


class IncrementalAlterConfigs(NamedTuple):
    """API 44, and 33 with `replaces`: what the changes do not name is deleted."""

    resources: tuple[ConfigResourceChange, ...]
    validate_only: bool = False
    replaces: bool = False


class ElectionType(IntEnum):
    """Which leader an operator wants (wire numbers)."""

    PREFERRED = 0
    """The first replica, when it is in sync."""
    UNCLEAN = 1
    """Any replica that is alive, for a partition without a leader."""


class ElectLeaders(NamedTuple):
    """Elections by hand (API 43). `election_type` is the raw wire number; `partitions` are
    (topic, partition numbers) pairs, and `None` asks for all partitions that need one."""

    election_type: int
    partitions: tuple[tuple[str, tuple[int, ...]], ...] | None


class Reassignment(NamedTuple):
    """Where a partition shall be; `None` cancels what is in progress."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None


class AlterReassignments(NamedTuple):
    """Partitions to move, or to leave where they were (API 45)."""

    wishes: tuple[Reassignment, ...]
    allow_factor_change: bool = True
    """Whether a target may have another number of replicas."""


class ListReassignments(NamedTuple):
    """What is being moved (API 46); `None` asks for all, pairs as in `ElectLeaders`."""

    partitions: tuple[tuple[str, tuple[int, ...]], ...] | None


class AssignReplicas(NamedTuple):
    """A broker reports where its replicas are (AssignReplicasToDirs, API 73)."""

    broker_id: int
    broker_epoch: int
    assignments: tuple[ReplicaDirectory, ...]


class AllocateProducerIds(NamedTuple):
    """A broker wants a block of producer ids (API 67)."""

    broker_id: int
    broker_epoch: int


class UnregisterBroker(NamedTuple):
    """An operator removes a dead broker's registration (API 64)."""

    broker_id: int


class UpgradeType(IntEnum):
    """What the sender of UpdateFeatures allows, as on the wire."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    """Only if no metadata is lost."""
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """A feature's new level."""

    name: str
    level: int
    """0 switches the feature off."""
    upgrade_type: int
    """An `UpgradeType`, or whatever the sender has written."""


class UpdateFeatures(NamedTuple):
    """An operator changes feature levels (API 57)."""

    updates: tuple[FeatureUpdate, ...]
    validate_only: bool


class RegisterController(NamedTuple):
    """A controller process introduces itself to the active one (API 70)."""

    controller_id: int
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, FeatureRange]


class ScramDeletion(NamedTuple):
    """A user shall have no credential for a mechanism any more."""

    name: str
    mechanism: int
    """1 SCRAM-SHA-256, 2 SCRAM-SHA-512, or whatever the sender has written."""


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """A user's new credential for a mechanism."""

    name: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)
    """Enough to log in with, so it is written nowhere."""


class AlterScramCredentials(NamedTuple):
    """An operator changes the passwords of users (API 51)."""

    deletions: tuple[ScramDeletion, ...]
    upsertions: tuple[ScramUpsertion, ...]


Request = (
    RegisterBroker
    | BrokerHeartbeat
    | AlterPartition
    | CreateTopics
    | DeleteTopics
    | CreatePartitions
    | IncrementalAlterConfigs
    | ElectLeaders
    | AlterReassignments
    | ListReassignments
    | AllocateProducerIds
    | UnregisterBroker
    | UpdateFeatures
    | RegisterController
    | AssignReplicas
    | AlterScramCredentials
    | CreateAcls
    | DeleteAcls
    | AlterClientQuotas
    | CreateToken
    | RenewToken
    | ExpireToken
)

# Responses ---------------------------------------------------------------------------------


class Refused(NamedTuple):
    """The whole request failed; nothing was written."""

    error_code: ErrorCode
    message: str


class RegisterBrokerResult(NamedTuple):
    """The epoch under which the broker now speaks."""

    broker_epoch: int


class BrokerHeartbeatResult(NamedTuple):
    """What the controller thinks of the broker."""

    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool


class AlterPartitionResult(NamedTuple):
    """One result per proposal, in the same order."""

    results: tuple[IsrResult, ...]


class ConfigResourceResult(NamedTuple):
    """What became of one `ConfigResourceChange`: all of its operations, or none."""

    resource_type: int
    resource_name: str
    error_code: ErrorCode
    message: str | None = None


class IncrementalAlterConfigsResult(NamedTuple):
    """In the order of the request."""

    resources: tuple[ConfigResourceResult, ...]


class ElectionResult(NamedTuple):
    """What became of the election of one partition."""

    topic: str
    partition: int
    error_code: ErrorCode
    message: str | None = None


class ElectLeadersResult(NamedTuple):
    """In the order of the request, each partition once. A request for all partitions leaves out
    those that needed no election."""

    results: tuple[ElectionResult, ...]


class ReassignmentResult(NamedTuple):
    """What became of one `Reassignment`."""

    topic: str
    partition: int
    error_code: ErrorCode
    message: str | None = None


class AlterReassignmentsResult(NamedTuple):
    """In the order of the request."""

    results: tuple[ReassignmentResult, ...]


class ReassignmentInProgress(NamedTuple):
    """A partition that is being moved: the target's replicas first, then those that leave."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ListReassignmentsResult(NamedTuple):
    """Only partitions that are being moved."""

    found: tuple[ReassignmentInProgress, ...]


class AssignedReplica(NamedTuple):
    """What became of one `ReplicaDirectory`."""

    topic_id: TopicId
    partition: int
    directory_id: Uuid
    error_code: ErrorCode


class AssignReplicasResult(NamedTuple):
    """In the order of the request."""

    results: tuple[AssignedReplica, ...]


@dataclass(frozen=True, slots=True)
class AllocateProducerIdsResult:
    """The broker owns `first_producer_id` and the `count` - 1 ids after it, for ever."""

    first_producer_id: int
    count: int


@dataclass(frozen=True, slots=True)
class UnregisterBrokerResult:
    """The registration is gone."""


@dataclass(frozen=True, slots=True)
class UpdateFeaturesResult:
    """The levels are as they were asked for, or could be."""


@dataclass(frozen=True, slots=True)
class RegisterControllerResult:
    """The registration is written."""


class ScramResult(NamedTuple):
    """What came of the changes of one user."""

    name: str
    error_code: ErrorCode = ErrorCode.NONE
    message: str | None = None


class AlterScramCredentialsResult(NamedTuple):
    """Of each user that was named."""

    users: tuple[ScramResult, ...]


Response = (
    Refused
    | RegisterBrokerResult
    | BrokerHeartbeatResult
    | AlterPartitionResult
    | CreateTopicsResult
    | DeleteTopicsResult
    | CreatePartitionsResult
    | IncrementalAlterConfigsResult
    | ElectLeadersResult
    | AlterReassignmentsResult
    | ListReassignmentsResult
    | AllocateProducerIdsResult
    | CreateAclsResult
    | DeleteAclsResult
    | AlterClientQuotasResult
    | CreateTokenResult
    | TokenExpiry
    | AssignReplicasResult
    | UnregisterBrokerResult
    | UpdateFeaturesResult
    | RegisterControllerResult
    | AlterScramCredentialsResult
)


class Reply(NamedTuple):
    """An output of the controller: the answer to the request that came with `reply_to`."""

    reply_to: Hashable
    response: Response
