"""What handlers need of their node: one small protocol for each part.

A handler names the parts that it uses, `class Node(HasImage, HasReplicas, Protocol)`, and sees no
more of the node. `broker/context.py` has them all; mypy checks that in `broker/api/catalogue.py`.
"""

from typing import Any, Protocol

from tidelog.broker.api.registry import Registry
from tidelog.broker.auto_topics import AutoTopics
from tidelog.broker.fetch_sessions import FetchSessions
from tidelog.broker.held_questions import HeldQuestions
from tidelog.broker.producer_ids import ProducerIds
from tidelog.config import NodeConfig
from tidelog.env.disk import Disk
from tidelog.env.instant import Instant
from tidelog.env.trace import Trace
from tidelog.kraft.quorum import Quorum
from tidelog.metadata.image import MetadataImage
from tidelog.replication.replicas import Replicas


class HasApis(Protocol):
    """What is served."""

    @property
    def apis(self) -> Registry[Any]:
        """The declarations."""


class HasAutoTopics(Protocol):
    """Topics that are created because a client asks about them."""

    @property
    def auto_topics(self) -> AutoTopics:
        """Those under way."""


class HasClock(Protocol):
    """Wall time."""

    def wall_ms(self, now: Instant, /) -> int:
        """Wall time at `now`."""


class HasClusterId(Protocol):
    """Which cluster this is."""

    @property
    def cluster_id(self) -> str:
        """As the directory was formatted."""


class HasConfig(Protocol):
    """The node's own configuration."""

    @property
    def config(self) -> NodeConfig:
        """All of it, as it was at the start."""


class HasDisk(Protocol):
    """The log directory."""

    @property
    def disk(self) -> Disk:
        """For how full it is."""


class HasFetchSessions(Protocol):
    """Incremental fetches."""

    @property
    def fetch_sessions(self) -> FetchSessions:
        """The sessions of all clients."""


class HasHeldQuestions(Protocol):
    """Questions that wait until this broker can know the answer."""

    @property
    def held_questions(self) -> HeldQuestions:
        """Those that wait."""


class HasImage(Protocol):
    """The metadata."""

    @property
    def image(self) -> MetadataImage:
        """The newest committed image that the replicas have applied."""


class HasProducerIds(Protocol):
    """Producer ids."""

    @property
    def producer_ids(self) -> ProducerIds:
        """The block of this broker."""


class HasQuorum(Protocol):
    """The metadata quorum."""

    @property
    def quorum(self) -> Quorum:
        """This node's replica of it."""


class HasReplicas(Protocol):
    """The partitions."""

    @property
    def replicas(self) -> Replicas:
        """The replicas that are hosted here."""


class HasTrace(Protocol):
    """Events."""

    @property
    def trace(self) -> Trace:
        """The node's."""


class HasUnreachable(Protocol):
    """Nodes in doubt."""

    @property
    def unreachable(self) -> frozenset[int]:
        """Nodes that may have died a moment ago."""
