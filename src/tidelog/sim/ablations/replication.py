"""Safeguards of replication, and what leaders and followers do without them."""

from collections.abc import Callable
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
from tidelog.replication.partition import Partition
from tidelog.replication.produce_path import ProducePath
from tidelog.replication.purgatory import AckQueue
from tidelog.replication.read_replica import READ_HERE, ReadReplicaSelector
from tidelog.replication.roles import Roles
from tidelog.sim.ablations.safeguard import of_cluster, of_regression


def _wait_for_committed_isr(self: LeaderState, replica_id: int, *_: Any) -> bool:
    return replica_id in self.isr


def _is_proposed_isr_too_small(self: LeaderState) -> bool:
    return len(self.maximal_isr) < self.min_isr


def _expand_without_epoch_start(self: LeaderState, replica_id: int) -> bool:
    remote = self.remotes[replica_id]
    return (
        replica_id not in self.maximal_isr
        and remote.log_end_offset >= self._log.high_watermark
        and self._brokers.may_join_isr(replica_id, remote.broker_epoch)
    )


def _cut_to_high_watermark(add: Callable[..., bool]) -> Callable[..., bool]:
    """A follower throws away all that it does not know to be committed."""

    def cut_and_add(self: ReplicaFetcher, partition: Partition, leader_epoch: int) -> bool:
        partition.log.truncate_to(partition.log.high_watermark)
        return add(self, partition, leader_epoch)

    return cut_and_add


def _believe_the_leaders_end(
    diverging: EpochEndOffset, own: EpochEndOffset, *, high_watermark: int, log_end_offset: int
) -> int:
    """The leader's end offset is taken whatever epoch it is of."""
    return min(diverging.end_offset, log_end_offset)


def _answer_known_epochs_only(answer: Callable[..., Any]) -> Callable[..., Any]:
    def known_only(self: Log, epoch: int) -> EpochEndOffset:
        end: EpochEndOffset = answer(self, epoch)
        return end if end.leader_epoch == epoch else EpochEndOffset(-1, -1)

    return known_only


def _stay_with_the_same_leader(follow: Callable[..., None]) -> Callable[..., None]:
    def follow_new_leaders(self: Fetchers, partition: Partition) -> None:
        fetcher = self._by_partition.get(partition)
        if fetcher is None or fetcher.followed.leader_id != partition.leader_id:
            follow(self, partition)

    return follow_new_leaders


def _cut_by_any_answer(on_partition: Callable[..., None]) -> Callable[..., None]:
    """Where to cut is done, whatever the log was like when the leader was asked."""

    def cut_or_apply(self: FetchAnswers, state: FetchState, fetched: Any, now: Any) -> None:
        if fetched.diverging_epoch is not None:
            self._on_divergence(state, fetched, now)
        else:
            on_partition(self, state, fetched, now)

    return cut_or_apply


def _cut_later(self: FetchAnswers, state: FetchState, fetched: Any, now: Any) -> None:
    """The high watermark of the answer first."""
    self._on_records(state, fetched, now)


def _cut_at_once(self: FetchAnswers, state: FetchState, cut: Any) -> bool:
    """A log is cut while a checkpoint claims what is cut."""
    follower.truncate(state.partition.log, cut, self._env.trace)
    self._followed.cutting.append(state)
    self.fetch_on(state)
    return True


def _note_before_comparing(read: Callable[..., Any]) -> Callable[..., Any]:
    """A follower's offset counts, whichever history it is of."""

    def note_and_read(self: Any, partition: Partition, want: Any) -> Any:
        leadership = partition.leadership
        remote = None if leadership is None else leadership.remotes.get(self._request.replica_id)
        if remote is not None and self._on_arrival:
            log_end = partition.log.log_end_offset
            self._note_progress(partition, leadership, remote, want, log_end)
        return read(self, partition, want)

    return note_and_read


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


def _one_record_early(take_up_to: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, high_watermark: take_up_to(self, high_watermark + 1)


def _change_nothing(change_role: Callable[..., None]) -> Callable[..., None]:
    """Nor when the metadata changes."""

    def change_and_forget(self: Roles, partition: Partition, decision: Any, now: Any) -> None:
        change_role(self, partition, decision, now)
        self.env.changed.forget(partition)

    return change_and_forget


SAFEGUARDS: Final = (
    # Truncating ------------------------------------------------------------------------------
    of_regression(
        "r01",
        "truncate-by-epoch",
        "a follower that cuts committed records because it does not know them as such",
        (ReplicaFetcher, "add", _cut_to_high_watermark(ReplicaFetcher.add)),
    ),
    of_regression(
        "r02",
        "divergence",
        "two histories in one partition",
        (fetch_reading, "_divergence", lambda *_: None),
    ),
    of_regression(
        "r03",
        "truncation-by-steps",
        "cutting by an epoch that the follower does not have",
        (follower, "decide_truncation", _believe_the_leaders_end),
    ),
    of_regression(
        "r03",
        "largest-epoch-not-above",
        "no answer for an epoch that the leader never knew",
        (Log, "end_offset_for_epoch", _answer_known_epochs_only(Log.end_offset_for_epoch)),
    ),
    of_regression(
        "r06",
        "empty-epochs-are-cut",
        "a follower that asks for its empty epoch for ever",
        (LeaderEpochCache, "truncate_from_end", lambda *_: None),
    ),
    of_regression(
        "r07",
        "new-epoch-new-fetch",
        "a follower that keeps what its leader cut in between",
        (Fetchers, "follow", _stay_with_the_same_leader(Fetchers.follow)),
    ),
    # Messages that come late -----------------------------------------------------------------
    of_regression(
        "r04",
        "leader-epochs-fence",
        "progress that was reported in another term",
        (Partition, "error_of_request", lambda *_: ErrorCode.NONE),
    ),
    of_regression(
        "r16",
        "answer-fits-the-log",
        "cutting by an answer of an older term",
        (FetchAnswers, "on_partition", _cut_by_any_answer(FetchAnswers.on_partition)),
    ),
    of_regression(
        "r17",
        "answers-to-those-who-left",
        "cutting by an answer of a broker that is not followed any more",
        (FollowedPartitions, "remove", lambda *_: None),
        (ReplicaFetcher, "check", lambda *_: None),
    ),
    of_regression(
        "r18",
        "cut-before-all-else",
        "reading what is about to be cut",
        (FetchAnswers, "_on_divergence", _cut_later),
    ),
    of_regression(
        "r19",
        "divergence-is-no-progress",
        "acknowledging by an offset of another history",
        (fetch_reading.Reading, "read", _note_before_comparing(fetch_reading.Reading.read)),
    ),
    # In sync ---------------------------------------------------------------------------------
    of_regression(
        "r05",
        "epoch-start-before-isr",
        "a newcomer in the ISR that lacks what former leaders committed",
        (LeaderState, "may_expand", _expand_without_epoch_start),
    ),
    of_regression(
        "r08",
        "pending-expansion-counts",
        "electing a newcomer that lacks committed records",
        (LeaderState, "waits_for", _wait_for_committed_isr),
    ),
    of_regression(
        "r08",
        "pending-shrink-counts",
        "electing a leaver that lacks committed records",
        (Pending, "maximal_isr", property(lambda self: self.proposed_isr)),
    ),
    of_regression(
        "r08",
        "isr-changes-move-the-high-watermark",
        "acknowledgements that wait for a replica that has left",
        (IsrChanges, "on_alter_partition_response", _mark_nothing),
        (Roles, "_change_role", _change_nothing(Roles._change_role)),
    ),
    of_regression(
        "r10",
        "broker-epochs",
        "an ISR member that forgot what it held",
        (BrokerEpochs, "is_stale", lambda *_: False),
        (BrokerEpochs, "may_join_isr", lambda *_: True),
        (isr_proposals, "_ineligible", lambda *_: None),
    ),
    of_regression(
        "r12",
        "min-isr",
        "committing below the min ISR",
        (LeaderState, "is_under_min_isr", property(lambda _: False)),
    ),
    of_cluster(
        "elections",
        "min-isr-is-committed",
        "committing with a member that the controller has not admitted",
        (LeaderState, "is_under_min_isr", property(_is_proposed_isr_too_small)),
        (LeaderState, "_check_advance", lambda *_: None),
    ),
    # Reading ---------------------------------------------------------------------------------
    of_regression(
        "r23",
        "reads-below-last-stable-offset",
        "showing records of an open transaction to readers of decided ones",
        (Log, "last_stable_offset", property(lambda self: self.high_watermark)),
    ),
    of_regression(
        "r28",
        "reads-below-high-watermark",
        "showing what may be lost",
        (fetch_reading.Reading, "_answer_consumer", _answer_to_the_end),
    ),
    of_regression(
        "r42",
        "preferred-replica-has-the-offset",
        "sending a consumer to a replica that denies its position",
        (ReadReplicaSelector, "decide", _any_replica_in_the_rack),
    ),
    of_regression(
        "r43",
        "replicas-show-their-life",
        "committing by a fetch that a client forged",
        (BrokerEpochs, "is_stale", lambda *_: False),
        (k01_fetch, "_objection", lambda *_: ErrorCode.NONE),
    ),
    of_regression(
        "s05",
        "offset-not-available",
        "telling a client that the log ends earlier than before",
        (offset_queries, "_is_unsettled", lambda *_: False),
    ),
    # Metadata and acknowledgements -----------------------------------------------------------
    of_regression(
        "s02",
        "partition-epochs",
        "following old metadata",
        (Partition, "objection_to", lambda *_: None),
    ),
    of_regression(
        "s09",
        "present-metadata",
        "leading as in a former life",
        (hosting, "is_in_force", _has_any_registration),
    ),
    of_regression(
        "s13",
        "claim-before-cut",
        "taking a replica that was cut for a damaged one",
        (FetchAnswers, "cut", _cut_at_once),
    ),
    of_regression(
        "s03",
        "group-commit-leader",
        "acknowledging what the leader has not flushed",
        (LeaderState, "own_end_offset", property(lambda self: self._log.log_end_offset)),
        (LeaderState, "_check_advance", lambda *_: None),
    ),
    of_regression(
        "s03",
        "group-commit-follower",
        "claiming what the follower has not flushed",
        (Partition, "is_flushed", property(lambda _: True)),
    ),
    of_regression(
        "s04",
        "later-epochs-are-skipped",
        "records of a term that the follower has not reconciled with",
        (fetch_answers, "append_fetched", _append_whatever_comes),
    ),
    of_regression(
        "s06",
        "acks-end-with-the-leadership",
        "producers that wait for a leader that is none",
        (ProducePath, "fail_acks", lambda *_: None),
    ),
    of_regression(
        "s07",
        "acks-wait-for-the-last-record",
        "acknowledging a record that is not committed",
        (AckQueue, "take_up_to", _one_record_early(AckQueue.take_up_to)),
    ),
    of_regression(
        "s07",
        "high-watermark-waits",
        "acknowledging what only the leader has",
        (LeaderState, "waits_for", lambda *_: False),
        (LeaderState, "_check_advance", lambda *_: None),
    ),
    # By chance -------------------------------------------------------------------------------
    of_cluster(
        "elections",
        "high-watermark-is-replicated",
        "a high watermark above what an ISR member holds",
        (LeaderState, "waits_for", lambda *_: False),
    ),
    of_cluster(
        "power-cuts",
        "group-commit-first",
        "a high watermark above what is flushed",
        (LeaderState, "own_end_offset", property(lambda self: self._log.log_end_offset)),
    ),
)
"""Of high watermark, ISR, fetching, truncating and acknowledging."""
