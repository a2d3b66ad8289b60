"""Proposals for ISR changes on their way to the controller.

One AlterPartition request is in flight per broker, and each partition has at most one proposal
queued or in flight (`OneProposal`). So proposals of many partitions travel together, and the
controller sees those of one partition in order.

A proposal has no time limit: the leader waits with its high watermark for every replica in its
maximal ISR until the controller has answered. When the whole request fails (no controller, stale
broker epoch, ...) all of it is sent again after a short pause. What a single partition's answer
means is decided in `isr_changes` (`IsrChanges.on_isr_answer`).

Bounds: one proposal for each partition that this broker leads, `MAX_PROPOSALS_PER_REQUEST` in a
request.

Source: KIP-497; KIP-903 for the broker epochs in version 3.
"""

from collections.abc import Sequence
from itertools import islice

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.limits import MAX_PROPOSALS_PER_REQUEST
from tidelog.model import TopicId, TopicPartition
from tidelog.replication.events.in_sync import AlterPartitionRetried
from tidelog.replication.events.shape import NoAnswer
from tidelog.replication.messages import (
    AlterPartitionProposal,
    IsrResult,
    SendAlterPartition,
    Token,
)
from tidelog.replication.shared import Env


class IsrUpdates:
    """The queue towards the controller."""

    __slots__ = ("_env", "_in_flight", "_not_before", "_queued", "_retry_ms", "_token")

    def __init__(self, env: Env) -> None:
        self._env = env
        # Pause after a failed request.
        self._retry_ms = env.config.alter_partition_retry_ms
        # Proposals for the next request, in the order in which they were made.
        self._queued: dict[TopicPartition, AlterPartitionProposal] = {}
        # Proposals of the request under way, by (topic id, partition).
        self._in_flight: dict[tuple[TopicId, int], AlterPartitionProposal] = {}
        # The request under way.
        self._token: Token | None = None
        # Nothing is sent before this instant; `None` before the first request.
        self._not_before: Instant | None = None

    def takes(self, topic_partition: TopicPartition, topic_id: TopicId) -> bool:
        """Whether a proposal may be made: none of this partition is queued or in flight."""
        in_flight = (topic_id, topic_partition.partition) in self._in_flight
        return topic_partition not in self._queued and not in_flight

    def submit(self, proposal: AlterPartitionProposal) -> None:
        """Queues a proposal; there must be no other of this partition."""
        key = proposal.topic_partition
        assert self.takes(key, proposal.topic_id), f"OneProposal: {key} has another proposal"
        self._queued[key] = proposal

    def resubmit(self, proposal: AlterPartitionProposal, now: Instant) -> None:
        """Queues an answered proposal again, after the pause."""
        self.submit(proposal)
        self._not_before = Instant(now + self._retry_ms)

    def withdraw(self, topic_partition: TopicPartition, topic_id: TopicId) -> None:
        """Forgets the proposal of a partition that is led no more; an answer to what was sent
        finds no proposal."""
        self._queued.pop(topic_partition, None)
        self._in_flight.pop((topic_id, topic_partition.partition), None)

    def maybe_send(self, now: Instant) -> bool:
        """Sends what is queued, or the first of it, unless a request is under way or a pause
        lasts."""
        if self._token is not None or not self._queued:
            return False
        if self._not_before is not None and now < self._not_before:
            return False
        # A controller of this very node may answer at once. What is left is another turn's then.
        self._not_before = Instant(now + 1)
        self._token = self._env.outbox.new_token()
        proposals = tuple(islice(self._queued.values(), MAX_PROPOSALS_PER_REQUEST))
        for proposal in proposals:
            del self._queued[proposal.topic_partition]
        self._in_flight = {
            (proposal.topic_id, proposal.topic_partition.partition): proposal
            for proposal in proposals
        }
        self._env.outbox.emit(
            SendAlterPartition(self._token, self._env.brokers.own_epoch, proposals)
        )
        return True

    def on_response(
        self, token: Token, results: Sequence[IsrResult] | ErrorCode | None, now: Instant
    ) -> list[tuple[AlterPartitionProposal, IsrResult]]:
        """Takes the answer of a request; returns each proposal with its own answer."""
        if token != self._token:
            self._env.trace.debug(
                "isr_updates", "on_response", "ignored", "stale token", token=token
            )
            return []
        self._token = None
        in_flight = self._in_flight
        self._in_flight = {}
        if results is None or isinstance(results, ErrorCode):
            self._not_before = Instant(now + self._retry_ms)
            for proposal in in_flight.values():
                self._queued.setdefault(proposal.topic_partition, proposal)
            reason = NoAnswer.NO_CONTROLLER if results is None else results
            self._env.trace.event(AlterPartitionRetried(reason=reason, in_ms=self._retry_ms))
            return []
        answers = {(result.topic_id, result.partition): result for result in results}
        unanswered = ErrorCode.UNKNOWN_SERVER_ERROR
        return [
            (proposal, answers.get(key) or IsrResult(*key, unanswered))
            for key, proposal in in_flight.items()
        ]

    def deadline(self) -> Instant | None:
        """When the next request may go, if something waits for it."""
        return self._not_before if self._queued and self._token is None else None

    def check(self) -> None:
        """Asserts that no partition has two proposals."""
        for proposal in self._in_flight.values():
            key = proposal.topic_partition
            assert key not in self._queued, f"OneProposal: {key} is queued and in flight"
        if self._token is None:
            assert not self._in_flight, f"OneProposal: {self._in_flight} without a request"
