"""Which checkers watch a run of whole nodes."""

from tidelog.sim.checkers import leaders, metadata, readings, replicas
from tidelog.sim.checkers.base import Checker
from tidelog.sim.checkers.image_is_fold_of_log import ImageIsFoldOfLog


def checkers() -> list[Checker]:
    """One of each; what breaks in several ways at once is reported by the first."""
    return [
        leaders.LeaderCompleteness(),
        leaders.OneLeaderPerEpoch(),
        leaders.HighWatermarkBounds(),
        leaders.MinIsrGuard(),
        metadata.EpochsRise(),
        metadata.FencedNeverInSync(),
        metadata.ValidIsrAndElr(),
        replicas.CandidateCompleteness(),
        replicas.AcknowledgedIsCommitted(),
        replicas.TrueHighWatermarkMonotonic(),
        replicas.LogMatching(),
        replicas.CommittedNeverTruncated(),
        replicas.MaximalIsrSuperset(),
        replicas.OffsetsInOrder(),
        replicas.OneQuorumLeaderPerEpoch(),
        replicas.NoFalseDamage(),
        replicas.ReplicasEqual(),
        replicas.EpochCacheMatchesBatches(),
        readings.NothingLost(),
        readings.RepeatableRead(),
        readings.NoDuplicates(),
        readings.ProducerOrder(),
        readings.HistoryIsALog(),
        ImageIsFoldOfLog(),
    ]
