"""The parts of one replica and which of them uses which.

Every part holds the core and decides one concern; where one part needs another, it is given it
here. `quorum.py` is the front of all, `exchange.py` the way between them and the other replicas.
"""

from dataclasses import dataclass

from tidelog.kraft.committed import CommittedReader
from tidelog.kraft.core import QuorumCore
from tidelog.kraft.elections import Elections
from tidelog.kraft.epochs import Epochs
from tidelog.kraft.fetch_server import FetchServer
from tidelog.kraft.fetcher import Fetcher
from tidelog.kraft.log_cleaning import LogCleaner
from tidelog.kraft.membership import Membership
from tidelog.kraft.own_snapshots import OwnSnapshots
from tidelog.kraft.own_voter import OwnVoter
from tidelog.kraft.snapshot_fetcher import SnapshotFetcher
from tidelog.kraft.snapshot_server import SnapshotServer
from tidelog.kraft.transitions import Transitions
from tidelog.kraft.voting import Voting


@dataclass(frozen=True, slots=True)
class Parts:
    """All parts of one replica."""

    voting: Voting
    """Grants and refuses votes."""
    epochs: Epochs
    """Announcements of leaders, and the own resignation."""
    elections: Elections
    """When to ask for votes, and what follows from the answers."""
    server: FetchServer
    """The leader's side of replication."""
    fetcher: Fetcher
    """The follower's side of replication."""
    reader: CommittedReader
    """How far the committed log was handed out."""
    snapshot_server: SnapshotServer
    """The leader's side of FetchSnapshot."""
    snapshot_fetcher: SnapshotFetcher
    """A snapshot that comes from the leader."""
    own_snapshots: OwnSnapshots
    """Snapshots of this node's own state."""
    cleaner: LogCleaner
    """Snapshots and segments that are kept no longer."""
    membership: Membership
    """The leader's side of changes of the voter set."""
    own_voter: OwnVoter
    """What this replica asks of the voter set for itself."""

    @classmethod
    def of(cls, core: QuorumCore) -> "Parts":
        """The parts around a core."""
        transitions = Transitions(core)
        epochs = Epochs(core, transitions)
        elections = Elections(core, transitions, epochs)
        reader, cleaner = CommittedReader(core.log), LogCleaner(core)
        snapshot_fetcher = SnapshotFetcher(core, reader, cleaner)
        return cls(
            voting=Voting(core, transitions),
            epochs=epochs,
            elections=elections,
            server=FetchServer(core),
            fetcher=Fetcher(core, transitions, elections, snapshot_fetcher, reader),
            reader=reader,
            snapshot_server=SnapshotServer(core, cleaner),
            snapshot_fetcher=snapshot_fetcher,
            own_snapshots=OwnSnapshots(core, snapshot_fetcher, cleaner),
            cleaner=cleaner,
            membership=Membership(core, epochs),
            own_voter=OwnVoter(core),
        )
