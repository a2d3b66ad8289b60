"""What a broker and the controller say to each other about one partition.

Leaders propose ISRs and brokers report directories (`replication/`), the controller decides
(`controller/`). The messages around these values are of each package.
"""

from typing import NamedTuple

from tidelog.errors import ErrorCode
from tidelog.model import TopicId, Uuid


class IsrMember(NamedTuple):
    """A proposed member of the ISR with the broker epoch that the leader saw; -1 skips it."""

    broker_id: int
    broker_epoch: int


class IsrResult(NamedTuple):
    """The answer to one proposal. With NONE the fields are the partition's new state; with any
    other code only the first three count."""

    topic_id: TopicId
    partition: int
    error_code: ErrorCode
    leader_id: int = -1
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    recovering: bool = False
    partition_epoch: int = -1


class ReplicaDirectory(NamedTuple):
    """Where a broker's replica of a partition is; `LOST_DIRECTORY` when it is gone."""

    topic_id: TopicId
    partition: int
    directory_id: Uuid
