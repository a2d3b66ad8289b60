"""Which checkers watch the leaders and the replicas of a run of whole nodes."""

from tidelog.sim.checkers.acknowledged_is_committed import AcknowledgedIsCommitted
from tidelog.sim.checkers.base import LeaderChecker, SweepChecker
from tidelog.sim.checkers.candidate_completeness import CandidateCompleteness
from tidelog.sim.checkers.committed_never_truncated import CommittedNeverTruncated
from tidelog.sim.checkers.high_watermark_bounds import HighWatermarkBounds
from tidelog.sim.checkers.leader_completeness import LeaderCompleteness
from tidelog.sim.checkers.log_matching import LogMatching
from tidelog.sim.checkers.maximal_isr_superset import MaximalIsrSuperset
from tidelog.sim.checkers.min_isr_guard import MinIsrGuard
from tidelog.sim.checkers.no_false_damage import NoFalseDamage
from tidelog.sim.checkers.offsets_in_order import OffsetsInOrder
from tidelog.sim.checkers.one_leader_per_epoch import OneLeaderPerEpoch
from tidelog.sim.checkers.one_quorum_leader_per_epoch import OneQuorumLeaderPerEpoch
from tidelog.sim.checkers.true_high_watermark_monotonic import TrueHighWatermarkMonotonic


def leader_checkers() -> tuple[LeaderChecker, ...]:
    """At each new term, and where a leader's high watermark moved."""
    return LeaderCompleteness(), OneLeaderPerEpoch(), HighWatermarkBounds(), MinIsrGuard()


def sweep_checkers() -> tuple[SweepChecker, ...]:
    """Every so often, at everything."""
    return (
        CandidateCompleteness(),
        AcknowledgedIsCommitted(),
        TrueHighWatermarkMonotonic(),
        LogMatching(),
        CommittedNeverTruncated(),
        MaximalIsrSuperset(),
        OffsetsInOrder(),
        OneQuorumLeaderPerEpoch(),
        NoFalseDamage(),
    )
