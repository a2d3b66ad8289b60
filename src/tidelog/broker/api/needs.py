"""What handlers need of their node: one small protocol for each part.

A handler names the parts that it uses, `class Node(HasImage, HasReplicas, Protocol)`, and sees no
more of the node; it sets none of them. `broker/context.py` has them all; mypy checks that in
`broker/api/catalogue.py`.
"""

from typing import Any, Protocol

from tidelog.broker.api.registry import Registry
from tidelog.broker.auto_topics import AutoTopics
from tidelog.broker.connections import Connections
from tidelog.broker.fetch_sessions import FetchSessions
from tidelog.broker.group_seats import GroupSeats
from tidelog.broker.inspections import Inspections
from tidelog.broker.logins import Logins
from tidelog.broker.metadata_rows import MetadataRows
from tidelog.broker.producer_ids import ProducerIds
from tidelog.broker.share_seats import ShareSeats
from tidelog.broker.share_state_calls import ShareStateCalls
from tidelog.broker.sharing import Sharing
from tidelog.broker.throttling import Throttling
from tidelog.broker.transaction_seats import TransactionSeats
from tidelog.config import NodeConfig
from tidelog.env.instant import Instant
from tidelog.env.trace import Trace
from tidelog.kraft.quorum import Quorum
from tidelog.log.directories import LogDirectories
from tidelog.metadata.image import MetadataImage
from tidelog.replication.replicas import Replicas


class HasApis(Protocol):
    """The declarations of what is served."""

    apis: Registry[Any]


class HasAutoTopics(Protocol):
    """The topics that are being created because a client asked about them."""

    auto_topics: AutoTopics


class HasClock(Protocol):
    """Wall time."""

    def wall_ms(self, now: Instant, /) -> int:
        """Wall time at `now`."""


class HasClusterId(Protocol):
    """The id that the log directory was formatted with."""

    @property
    def cluster_id(self) -> str:
        """The same on all nodes of the cluster."""


class HasConfig(Protocol):
    """The node's own configuration, as it was at the start."""

    config: NodeConfig


class HasConnections(Protocol):
    """The connections of clients and brokers."""

    connections: Connections


class HasDirectories(Protocol):
    """The node's log directories."""

    directories: LogDirectories


class HasFetchSessions(Protocol):
    """The incremental fetch sessions of all clients."""

    fetch_sessions: FetchSessions


class HasGroups(Protocol):
    """The group coordinators of this node."""

    groups: GroupSeats


class HasLogins(Protocol):
    """The logins of accepted connections."""

    logins: Logins


class HasShares(Protocol):
    """The share coordinators of this node."""

    shares: ShareSeats


class HasShareStates(Protocol):
    """What group coordinators of this node ask of share coordinators."""

    share_states: ShareStateCalls


class HasTransactions(Protocol):
    """The transaction coordinators of this node."""

    transactions: TransactionSeats


class HasImage(Protocol):
    """The newest committed metadata that the replicas have applied."""

    image: MetadataImage


class HasInspections(Protocol):
    """The requests that wait until their batches were looked into."""

    inspections: Inspections


class HasProducerIds(Protocol):
    """This broker's block of producer ids."""

    producer_ids: ProducerIds


class HasQuorum(Protocol):
    """This node's replica of the metadata log."""

    quorum: Quorum


class HasReplicas(Protocol):
    """The replicas of partitions that are hosted here."""

    replicas: Replicas


class HasSharing(Protocol):
    """The share partitions of this node."""

    sharing: Sharing


class HasThrottling(Protocol):
    """The quotas of clients."""

    throttling: Throttling


class HasTrace(Protocol):
    """Where the node's events go."""

    trace: Trace


class HasMetadataRows(Protocol):
    """Topics as Metadata answers have them."""

    metadata_rows: MetadataRows


class HasUnreachable(Protocol):
    """The nodes that may have died a moment ago."""

    unreachable: frozenset[int]
