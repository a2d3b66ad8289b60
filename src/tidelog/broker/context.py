"""The parts of a node that handlers of APIs may use.

A handler does not see all of them: it names those that it needs (`broker/api/needs.py`).
"""

from dataclasses import dataclass, field

from tidelog.broker.api.passing import Gate
from tidelog.broker.api.registry import Registry
from tidelog.broker.authorization import Authorization
from tidelog.broker.auto_topics import AutoTopics
from tidelog.broker.connections import Connections
from tidelog.broker.control_link import ControlLink
from tidelog.broker.fetch_sessions import FetchSessions
from tidelog.broker.group_seats import GroupSeats
from tidelog.broker.held_questions import HeldQuestions
from tidelog.broker.inspections import Inspections
from tidelog.broker.key_stores import KeyStores
from tidelog.broker.logins import Logins
from tidelog.broker.long_answers import LongAnswers
from tidelog.broker.metadata_rows import MetadataRows
from tidelog.broker.producer_ids import ProducerIds
from tidelog.broker.share_seats import ShareSeats
from tidelog.broker.share_state_calls import ShareStateCalls
from tidelog.broker.sharing import Sharing
from tidelog.broker.throttling import Throttling
from tidelog.broker.token_rules import TokenRules
from tidelog.broker.transaction_seats import TransactionSeats
from tidelog.config import NodeConfig
from tidelog.controller.controller import Controller
from tidelog.env.instant import Instant
from tidelog.env.trace import Trace
from tidelog.kraft.quorum import Quorum
from tidelog.log.directories import LogDirectories
from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage
from tidelog.replication.replicas import Replicas


@dataclass(slots=True)
class Broker:
    """The parts of one node."""

    apis: "Registry[Broker]"
    config: NodeConfig
    connections: Connections
    logins: Logins
    replicas: Replicas
    inspections: Inspections
    quorum: Quorum
    # None on a node that is only a broker.
    controller: Controller | None
    control: ControlLink
    gate: Gate
    key_stores: KeyStores
    auto_topics: AutoTopics
    fetch_sessions: FetchSessions
    # Stays empty on a node that is only a controller.
    groups: GroupSeats
    # Likewise.
    transactions: TransactionSeats
    # Likewise.
    shares: ShareSeats
    share_states: ShareStateCalls
    sharing: Sharing
    trace: Trace
    # The log directories, for operators who ask how full they are.
    directories: LogDirectories
    producer_ids: ProducerIds = field(default_factory=ProducerIds)
    # The newest committed image that the replicas have applied.
    image: MetadataImage = EMPTY_IMAGE
    # Nodes that may have died a moment ago (`FailureDetector.in_doubt`).
    unreachable: frozenset[int] = frozenset()
    # Wall time minus monotonic time, from the driver.
    wall_offset_ms: int = 0
    held_questions: HeldQuestions = field(default_factory=HeldQuestions)
    metadata_rows: MetadataRows = field(default_factory=MetadataRows)

    long_answers: LongAnswers = field(init=False)
    # What the gate asks.
    authorization: Authorization = field(init=False)
    throttling: Throttling = field(init=False)
    token_rules: TokenRules = field(init=False)

    def __post_init__(self) -> None:
        self.long_answers = LongAnswers(self.trace.steps)
        self.authorization = self.gate.authorization
        self.throttling = self.gate.throttling
        self.token_rules = TokenRules(self.config, self.authorization)

    @property
    def cluster_id(self) -> str:
        """The cluster that the node's directories are formatted for."""
        return self.directories.cluster_id

    def wall_ms(self, now: Instant) -> int:
        """Wall time at `now`, for record timestamps."""
        return now + self.wall_offset_ms
