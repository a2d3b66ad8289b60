"""Changes of the in-sync replicas that this node's leaders propose, and the controller's answers.

A leader proposes that a follower joins as soon as its fetch shows that it may (`maybe_expand_isr`),
and that members leave that have lagged for too long (`maybe_shrink_isr`, called by `isr_checks`)
or seem to be dead and are waited for (`shrink_stalled`, after each tick that changes something).
Until the controller has answered, the partition's ISR state (`isr.py`) assumes that either answer
may come:

| answer | the proposal |
| --- | --- |
| success | is committed, with the partition epoch that the answer carries |
| OPERATION_NOT_ATTEMPTED, INELIGIBLE_REPLICA | is refused: back to the committed ISR |
| an error that shows that the controller is ahead | stays pending until the metadata |
| any other error | is sent again after a pause |

An answer to another proposal than the pending one, of another leader epoch, or older than the
metadata, is ignored.

Left out: how proposals travel (`isr_updates`), what counts as lagging (`leader`).

Source: KIP-497, KIP-903, KIP-966.
"""

from collections.abc import Sequence
from typing import Final

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.model import NO_EPOCH
from tidelog.replication.events import in_sync as events
from tidelog.replication.isr import Committed, Pending
from tidelog.replication.isr_updates import IsrUpdates
from tidelog.replication.leader import LeaderState
from tidelog.replication.messages import AlterPartitionProposal, IsrMember, IsrResult, Token
from tidelog.replication.partition import Partition
from tidelog.replication.shared import Env

_STAY_PENDING: Final = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    )
)
"""The controller knows something newer; it will arrive as metadata and settle the matter. Until
then the proposal may be committed for all this leader knows, so it stays in the maximal ISR."""


class IsrChanges:
    """Proposes for the partitions that this node leads, and applies what comes back."""

    __slots__ = ("_env", "_updates")

    def __init__(self, env: Env, updates: IsrUpdates) -> None:
        self._env = env
        # The queue towards the controller.
        self._updates = updates

    # Proposals ----------------------------------------------------------------------------

    def maybe_expand_isr(self, partition: Partition, replica_id: int) -> bool:
        """Proposes that a follower joins, if it may, and counts it in the maximal ISR at once;
        unless another proposal of the partition is under way."""
        leadership = partition.leadership
        if leadership is None or not leadership.may_expand(replica_id):
            return False
        if not self._updates.takes(partition.topic_partition, partition.topic_id):
            return False
        isr = leadership.isr
        self._propose(partition, leadership, (*isr, replica_id))
        self._env.trace.event(
            events.IsrExpansionProposed(
                partition=partition.topic_partition,
                replica=replica_id,
                isr=isr,
                log_end=leadership.remotes[replica_id].log_end_offset,
                high_watermark=partition.log.high_watermark,
                epoch_start=leadership.epoch_start_offset,
            )
        )
        self._env.changed.mark(partition, readable=False)
        return True

    def maybe_shrink_isr(self, partition: Partition, leadership: LeaderState, now: Instant) -> bool:
        """Proposes that members leave that have lagged for too long, unless another proposal of the
        partition is under way. They count until the controller confirms."""
        if not self._updates.takes(partition.topic_partition, partition.topic_id):
            return False
        leaving = leadership.laggards(now)
        if not leaving:
            return False
        isr = leadership.isr
        remaining = tuple(member for member in isr if member not in leaving)
        self._propose(partition, leadership, remaining)
        remotes = [leadership.remotes[member] for member in leaving]
        self._env.trace.event(
            events.IsrShrinkProposed(
                partition=partition.topic_partition,
                leaving=leaving,
                isr=isr,
                log_ends=tuple(remote.log_end_offset for remote in remotes),
                level_ms_ago=tuple(remote.caught_up_ms_ago(now) for remote in remotes),
                high_watermark=partition.log.high_watermark,
                log_end=partition.log.log_end_offset,
                lag_time_max_ms=(
                    0
                    if self._env.brokers.suspected & set(leaving)
                    else self._env.config.replica_lag_time_max_ms
                ),
            )
        )
        return True

    def shrink_stalled(self, partition: Partition, leadership: LeaderState, now: Instant) -> None:
        """The high watermark stands still: members that seem to be dead are to leave."""
        if not self._env.brokers.suspected.isdisjoint(leadership.isr):
            self.maybe_shrink_isr(partition, leadership, now)

    def _propose(self, partition: Partition, leadership: LeaderState, isr: tuple[int, ...]) -> None:
        members = []
        for member in isr:
            if member == self._env.node_id:
                members.append(IsrMember(member, self._env.brokers.own_epoch))
                continue
            seen = leadership.remotes[member].broker_epoch
            members.append(IsrMember(member, NO_EPOCH if seen is None else seen))
        proposal = AlterPartitionProposal(
            topic_partition=partition.topic_partition,
            topic_id=partition.topic_id,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr=tuple(members),
            recovering=False,
        )
        leadership.isr_state = Pending(leadership.isr, proposal)
        self._updates.submit(proposal)

    # Answers ------------------------------------------------------------------------------

    def on_alter_partition_response(
        self, token: Token, results: Sequence[IsrResult] | ErrorCode | None, now: Instant
    ) -> None:
        """The answer to a `SendAlterPartition`: see `Replicas.on_alter_partition_response`."""
        for proposal, result in self._updates.on_response(token, results, now):
            partition = self._env.hosted.partitions.get(proposal.topic_partition)
            if partition is None or partition.topic_id != proposal.topic_id:
                continue
            before = partition.maximal_isr
            if self.on_isr_answer(partition, proposal, result):
                self._updates.resubmit(proposal, now)
            # What a replica that has left reads next may let it join again.
            self._env.changed.mark(partition, readable=not before <= partition.maximal_isr)

    def on_isr_answer(
        self, partition: Partition, proposal: AlterPartitionProposal, result: IsrResult
    ) -> bool:
        """Applies the answer to one proposal; returns whether to send it again."""
        leadership = partition.leadership
        state = None if leadership is None else leadership.isr_state
        if leadership is None or state is None or isinstance(state, Committed):
            return self._ignore_answer(partition, "nothing is proposed", result)
        if state.proposal is not proposal:
            return self._ignore_answer(partition, "another proposal is in flight", result)
        code = result.error_code
        if code is ErrorCode.NONE:
            return self._commit(partition, leadership, result)
        if code in (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA):
            leadership.isr_state = Committed(state.isr)
            key, isr = partition.topic_partition, state.isr
            self._env.trace.event(events.IsrProposalRefused(partition=key, reason=code, isr=isr))
            return False
        again = code not in _STAY_PENDING
        decision = events.IsrProposalRetried if again else events.IsrProposalPending
        self._env.trace.event(
            decision(
                partition=partition.topic_partition, reason=code, maximal_isr=state.maximal_isr
            )
        )
        return again

    def _commit(self, partition: Partition, leadership: LeaderState, result: IsrResult) -> bool:
        if result.leader_epoch != partition.leader_epoch:
            return self._ignore_answer(partition, "other leader epoch", result)
        if result.partition_epoch < partition.partition_epoch:
            return self._ignore_answer(partition, "older partition epoch", result)
        partition.partition_epoch = result.partition_epoch
        image = partition.image
        seen = image is not None and image.partition_epoch >= result.partition_epoch
        leadership.commit_isr(result.isr, seen_in_metadata=seen)
        self._env.trace.event(
            events.IsrCommitted(
                partition=partition.topic_partition, isr=result.isr, epoch=result.partition_epoch
            )
        )
        return False

    def _ignore_answer(self, partition: Partition, reason: str, result: IsrResult) -> bool:
        code = result.error_code.name
        self._env.trace.debug(partition, "on_isr_answer", "ignored", reason, error=code)
        return False
