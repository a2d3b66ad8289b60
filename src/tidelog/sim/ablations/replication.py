"""Safeguards of replication, and what leaders and followers do without them."""

from typing import Any, Final

from tidelog.broker.api import k01_fetch
from tidelog.controller import isr_proposals
from tidelog.errors import ErrorCode
from tidelog.log.epoch_cache import LeaderEpochCache
from tidelog.log.log import Log
from tidelog.model import EpochEndOffset
from tidelog.replication import fetch_answers, fetch_reading, follower, hosting, offset_queries
from tidelog.replication.brokers import BrokerEpochs
from tidelog.replication.fetch_answers import FetchAnswers
from tidelog.replication.fetch_state import FetchState, FollowedPartitions
from tidelog.replication.fetcher import ReplicaFetcher
from tidelog.replication.fetchers import Fetchers
from tidelog.replication.isr import Pending
from tidelog.replication.isr_changes import IsrChanges
from tidelog.replication.leader import LeaderState
from tidelog.replication.metadata_changes import MetadataChanges
from tidelog.replication.partition import Partition
from tidelog.replication.produce_path import ProducePath
from tidelog.replication.purgatory import AckQueue
from tidelog.replication.read_replica import READ_HERE, ReadReplicaSelector
from tidelog.replication.roles import Roles
from tidelog.sim.ablations.safeguard import Original, guard, guard_of_cluster


def _wait_for_committed_isr(self: LeaderState, replica_id: int, *_: Any) -> bool:
    return replica_id in self.isr


def _is_proposed_isr_too_small(self: LeaderState) -> bool:
    return len(self.maximal_isr) < self.min_isr


def _expand_without_epoch_start(self: LeaderState, replica_id: int) -> bool:
    remote = self.remotes[replica_id]
    return (
        replica_id not in self.maximal_isr
        and remote.log_end_offset >= self.log.high_watermark
        and self._brokers.may_join_isr(replica_id, remote.broker_epoch)
    )


def _cut_to_high_watermark(add: Original, self: Any, partition: Partition, *rest: Any) -> Any:
    """A follower throws away all that it does not know to be committed."""
    partition.log.truncate_to(partition.log.high_watermark)
    return add(self, partition, *rest)


def _believe_the_leaders_end(
    diverging: EpochEndOffset, own: EpochEndOffset, *, high_watermark: int, log_end_offset: int
) -> int:
    """The leader's end offset is taken whatever epoch it is of."""
    return min(diverging.end_offset, log_end_offset)


def _answer_known_epochs_only(answer: Original, self: Log, epoch: int) -> Any:
    end = answer(self, epoch)
    return end if end.leader_epoch == epoch else EpochEndOffset(-1, -1)


def _stay_with_the_same_leader(follow: Original, self: Fetchers, partition: Partition) -> None:
    fetcher = self._by_partition.get(partition)
    if fetcher is None or fetcher.followed.leader_id != partition.leader_id:
        follow(self, partition)


def _cut_by_any_answer(
    on_partition: Original, self: FetchAnswers, state: FetchState, fetched: Any, *rest: Any
) -> None:
    """Where to cut is done, whatever the log was like when the leader was asked."""
    if fetched.diverging_epoch is not None:
        self._on_divergence(state, fetched, *rest)
    else:
        on_partition(self, state, fetched, *rest)


def _cut_later(self: FetchAnswers, state: FetchState, fetched: Any, now: Any) -> None:
    """The high watermark of the answer first."""
    self._on_records(state, fetched, now)


def _cut_at_once(self: FetchAnswers, state: FetchState, cut: Any) -> bool:
    """A log is cut while a checkpoint claims what is cut."""
    follower.truncate(state.partition.log, cut, self._env.trace)
    self._followed.cutting.append(state)
    self.fetch_on(state)
    return True


def _note_before_comparing(read: Original, self: Any, partition: Partition, want: Any) -> Any:
    """A follower's offset counts, whichever history it is of."""
    leadership = partition.leadership
    remote = None if leadership is None else leadership.remotes.get(self._request.replica_id)
    if remote is not None and self._on_arrival:
        log_end = partition.log.log_end_offset
        self._note_progress(partition, leadership, remote, want, log_end)
    return read(self, partition, want)


def _mark_nothing(self: IsrChanges, token: Any, results: Any, now: Any) -> None:
    """The high watermark is not looked at again when an ISR change is answered."""
    for proposal, result in self._updates.on_response(token, results, now):
        partition = self._env.hosted.partitions.get(proposal.topic_partition)
        if partition is not None and self.on_isr_answer(partition, proposal, result):
            self._updates.resubmit(proposal, now)


def _answer_to_the_end(self: Any, partition: Partition, want: Any) -> Any:
    """A consumer is given all that the leader has."""
    return self._answer(partition.log, want, partition.log.log_end_offset)


def _any_replica_in_the_rack(
    self: ReadReplicaSelector,
    leadership: LeaderState,
    fetch_offset: int,
    *,
    rack_id: str,
    listener: str,
    now: Any,
) -> int:
    """In sync or not, with the offset or without."""
    for replica_id in leadership.remotes:
        if rack_id and self._brokers.rack_of(replica_id) == rack_id:
            return replica_id
    return READ_HERE


def _append_whatever_comes(log: Log, fetched: Any, _epoch: int, trace: Any) -> Any:
    return follower.append_fetched(log, fetched, 2**31 - 1, trace)


def _has_any_registration(image: Any, node_id: int, broker_epoch: int) -> bool:
    """Of this life or of another."""
    return node_id in image.brokers


def _one_record_early(take_up_to: Original, self: AckQueue, high_watermark: int) -> Any:
    return take_up_to(self, high_watermark + 1)


def _change_nothing(
    change_role: Original, self: Roles, partition: Partition, decision: Any, now: Any
) -> None:
    """Nor when the metadata changes."""
    change_role(self, partition, decision, now)
    self.env.changed.forget(partition)


_ENDLESS: Final = 1 << 30
"""More than there is of anything."""

SAFEGUARDS: Final = (
    # Truncating ------------------------------------------------------------------------------
    guard(
        "r01",
        "truncate-by-epoch",
        "a follower that cuts committed records because it does not know them as such",
    ).wrapped(ReplicaFetcher, "add", _cut_to_high_watermark),
    guard("r02", "divergence", "two histories in one partition").replaced(
        fetch_reading, "_divergence", lambda *_: None
    ),
    guard(
        "r03", "truncation-by-steps", "cutting by an epoch that the follower does not have"
    ).replaced(follower, "decide_truncation", _believe_the_leaders_end),
    guard(
        "r03", "largest-epoch-not-above", "no answer for an epoch that the leader never knew"
    ).wrapped(Log, "end_offset_for_epoch", _answer_known_epochs_only),
    guard(
        "r06", "empty-epochs-are-cut", "a follower that asks for its empty epoch for ever"
    ).replaced(LeaderEpochCache, "truncate_from_end", lambda *_: None),
    guard(
        "r07", "new-epoch-new-fetch", "a follower that keeps what its leader cut in between"
    ).wrapped(Fetchers, "follow", _stay_with_the_same_leader),
    # Messages that come late -----------------------------------------------------------------
    guard("r04", "leader-epochs-fence", "progress that was reported in another term").replaced(
        Partition, "error_of_request", lambda *_: ErrorCode.NONE
    ),
    guard("r16", "answer-fits-the-log", "cutting by an answer of an older term").wrapped(
        FetchAnswers, "on_partition", _cut_by_any_answer
    ),
    guard(
        "r17",
        "answers-to-those-who-left",
        "cutting by an answer of a broker that is not followed any more",
    )
    .replaced(FollowedPartitions, "remove", lambda *_: None)
    .replaced(ReplicaFetcher, "check", lambda *_: None),
    guard("r18", "cut-before-all-else", "reading what is about to be cut").replaced(
        FetchAnswers, "_on_divergence", _cut_later
    ),
    guard(
        "r19", "divergence-is-no-progress", "acknowledging by an offset of another history"
    ).wrapped(fetch_reading.Reading, "read", _note_before_comparing),
    # In sync ---------------------------------------------------------------------------------
    guard(
        "r05",
        "epoch-start-before-isr",
        "a newcomer in the ISR that lacks what former leaders committed",
    ).replaced(LeaderState, "may_expand", _expand_without_epoch_start),
    guard(
        "r08", "pending-expansion-counts", "electing a newcomer that lacks committed records"
    ).replaced(LeaderState, "waits_for", _wait_for_committed_isr),
    guard(
        "r08", "pending-shrink-counts", "electing a leaver that lacks committed records"
    ).replaced(Pending, "maximal_isr", property(lambda self: self.proposed_isr)),
    guard(
        "r08",
        "isr-changes-move-the-high-watermark",
        "acknowledgements that wait for a replica that has left",
    )
    .replaced(IsrChanges, "on_alter_partition_response", _mark_nothing)
    .wrapped(Roles, "_change_role", _change_nothing),
    guard("r10", "broker-epochs", "an ISR member that forgot what it held")
    .replaced(BrokerEpochs, "is_stale", lambda *_: False)
    .replaced(BrokerEpochs, "may_join_isr", lambda *_: True)
    .replaced(isr_proposals, "_ineligible", lambda *_: None),
    guard("r12", "min-isr", "committing below the min ISR").replaced(
        LeaderState, "is_under_min_isr", property(lambda _: False)
    ),
    guard_of_cluster(
        "elections",
        "min-isr-is-committed",
        "committing with a member that the controller has not admitted",
    )
    .replaced(LeaderState, "is_under_min_isr", property(_is_proposed_isr_too_small))
    .replaced(LeaderState, "_check_advance", lambda *_: None),
    # Reading ---------------------------------------------------------------------------------
    guard(
        "r23",
        "reads-below-last-stable-offset",
        "showing records of an open transaction to readers of decided ones",
    ).replaced(Log, "last_stable_offset", property(lambda self: self.high_watermark)),
    guard("r28", "reads-below-high-watermark", "showing what may be lost").replaced(
        fetch_reading.Reading, "_answer_consumer", _answer_to_the_end
    ),
    guard(
        "r42",
        "preferred-replica-has-the-offset",
        "sending a consumer to a replica that denies its position",
    ).replaced(ReadReplicaSelector, "decide", _any_replica_in_the_rack),
    guard("r43", "replicas-show-their-life", "committing by a fetch that a client forged")
    .replaced(BrokerEpochs, "is_stale", lambda *_: False)
    .replaced(k01_fetch, "_objection", lambda *_: ErrorCode.NONE),
    guard(
        "s05", "offset-not-available", "telling a client that the log ends earlier than before"
    ).replaced(offset_queries, "_is_unsettled", lambda *_: False),
    # Metadata and acknowledgements -----------------------------------------------------------
    guard("s02", "partition-epochs", "following old metadata").replaced(
        Partition, "objection_to", lambda *_: None
    ),
    guard("s09", "present-metadata", "leading as in a former life").replaced(
        hosting, "is_in_force", _has_any_registration
    ),
    guard("s13", "claim-before-cut", "taking a replica that was cut for a damaged one").replaced(
        FetchAnswers, "cut", _cut_at_once
    ),
    guard("s03", "group-commit-leader", "acknowledging what the leader has not flushed")
    .replaced(LeaderState, "own_end_offset", property(lambda self: self.log.log_end_offset))
    .replaced(LeaderState, "_check_advance", lambda *_: None),
    guard("s03", "group-commit-follower", "claiming what the follower has not flushed").replaced(
        Partition, "is_flushed", property(lambda _: True)
    ),
    guard(
        "s04",
        "later-epochs-are-skipped",
        "records of a term that the follower has not reconciled with",
    ).replaced(fetch_answers, "append_fetched", _append_whatever_comes),
    guard(
        "s06", "acks-end-with-the-leadership", "producers that wait for a leader that is none"
    ).replaced(ProducePath, "fail_acks", lambda *_: None),
    guard(
        "s07", "acks-wait-for-the-last-record", "acknowledging a record that is not committed"
    ).wrapped(AckQueue, "take_up_to", _one_record_early),
    guard("s07", "high-watermark-waits", "acknowledging what only the leader has")
    .replaced(LeaderState, "waits_for", lambda *_: False)
    .replaced(LeaderState, "_check_advance", lambda *_: None),
    # Long turns ------------------------------------------------------------------------------
    guard(
        "s15", "metadata-in-slices", "a quorum that takes its leader for dead while it makes logs"
    ).replaced(MetadataChanges, "work_per_turn", _ENDLESS),
    guard("s16", "short-slices", "turns of a second").replaced(
        MetadataChanges, "work_per_turn", _ENDLESS
    ),
    guard("s16", "few-first-records", "writes that wait for thousands of new files").replaced(
        fetch_reading, "MAX_FIRST_RECORDS", 1 << 30
    ),
    guard("s18", "cuts-in-turns", "a turn that deletes a whole log").replaced(
        fetch_answers, "MAX_SEGMENTS_CUT_PER_TURN", 1 << 30
    ),
    guard("s17", "config-before-isr", "committing without a member that may be elected").replaced(
        Roles, "_reconfigure", lambda *_: None
    ),
    # By chance -------------------------------------------------------------------------------
    guard_of_cluster(
        "elections",
        "high-watermark-is-replicated",
        "a high watermark above what an ISR member holds",
    ).replaced(LeaderState, "waits_for", lambda *_: False),
    guard_of_cluster(
        "power-cuts", "group-commit-first", "a high watermark above what is flushed"
    ).replaced(LeaderState, "own_end_offset", property(lambda self: self.log.log_end_offset)),
)
"""Of high watermark, ISR, fetching, truncating and acknowledging."""
