"""Proposals for ISR changes on their way to the controller.

Each partition has at most one proposal queued or in flight (`OneProposal`), so the controller sees
those of one partition in order. What is proposed while an AlterPartition request is under way waits
for its answer, and travels together. Only what fills a request by itself goes before, a request a
turn: the answer takes a round trip through the quorum, and a broker that returns with ten thousand
partitions would wait for hundreds of them. Kafka's brokers have one request in flight, of any size.

A proposal has no time limit: the leader waits with its high watermark for every replica in its
maximal ISR until the controller has answered. When the whole request fails (no controller, stale
broker epoch, ...) all of it is sent again after a short pause. What a single partition's answer
means is decided in `isr_changes` (`IsrChanges.on_isr_answer`).

Bounds: one proposal for each partition that this broker leads, `MAX_PROPOSALS_PER_REQUEST` in a
request, `MAX_ALTER_PARTITIONS_IN_FLIGHT` requests.

Source: KIP-497; KIP-903 for the broker epochs in version 3.
"""

from collections.abc import Sequence
from itertools import islice

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.limits import MAX_ALTER_PARTITIONS_IN_FLIGHT, MAX_PROPOSALS_PER_REQUEST
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

    __slots__ = ("_env", "_in_flight", "_not_before", "_queued", "_requests", "_retry_ms")

    def __init__(self, env: Env) -> None:
        self._env = env
        # Pause after a failed request.
        self._retry_ms = env.config.alter_partition_retry_ms
        # Proposals for the next request, in the order in which they were made.
        self._queued: dict[TopicPartition, AlterPartitionProposal] = {}
        # Proposals whose answer counts, by (topic id, partition).
        self._in_flight: dict[tuple[TopicId, int], AlterPartitionProposal] = {}
        # What the requests under way carry, withdrawn proposals among it.
        self._requests: dict[Token, tuple[AlterPartitionProposal, ...]] = {}
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
        """Sends what is queued, or the first of it, unless it is to wait for an answer or a pause
        lasts."""
        if not self._may_send:
            return False
        if self._not_before is not None and now < self._not_before:
            return False
        # A controller of this very node may answer at once. What is left is another turn's then.
        self._not_before = Instant(now + 1)
        token = self._env.outbox.new_token()
        proposals = tuple(islice(self._queued.values(), MAX_PROPOSALS_PER_REQUEST))
        for proposal in proposals:
            del self._queued[proposal.topic_partition]
            self._in_flight[_key(proposal)] = proposal
        self._requests[token] = proposals
        self._env.outbox.emit(SendAlterPartition(token, self._env.brokers.own_epoch, proposals))
        return True

    @property
    def _may_send(self) -> bool:
        if not self._requests:
            return bool(self._queued)
        is_full = len(self._queued) >= MAX_PROPOSALS_PER_REQUEST
        return is_full and len(self._requests) < MAX_ALTER_PARTITIONS_IN_FLIGHT

    def on_response(
        self, token: Token, results: Sequence[IsrResult] | ErrorCode | None, now: Instant
    ) -> list[tuple[AlterPartitionProposal, IsrResult]]:
        """Takes the answer of a request; returns each proposal with its own answer."""
        proposals = self._requests.pop(token, None)
        if proposals is None:
            self._env.trace.debug(
                "isr_updates", "on_response", "ignored", "stale token", token=token
            )
            return []
        # Another proposal of a partition may be under way since one was withdrawn.
        sent = [each for each in proposals if self._in_flight.get(_key(each)) is each]
        for proposal in sent:
            del self._in_flight[_key(proposal)]
        if results is None or isinstance(results, ErrorCode):
            self._not_before = Instant(now + self._retry_ms)
            for proposal in sent:
                self._queued.setdefault(proposal.topic_partition, proposal)
            reason = NoAnswer.NO_CONTROLLER if results is None else results
            self._env.trace.event(AlterPartitionRetried(reason=reason, in_ms=self._retry_ms))
            return []
        answers = {(result.topic_id, result.partition): result for result in results}
        unanswered = ErrorCode.UNKNOWN_SERVER_ERROR
        return [
            (proposal, answers.get(_key(proposal)) or IsrResult(*_key(proposal), unanswered))
            for proposal in sent
        ]

    def deadline(self) -> Instant | None:
        """When the next request may go, if something waits for it."""
        return self._not_before if self._may_send else None

    def check(self) -> None:
        """Asserts that no partition has two proposals."""
        for proposal in self._in_flight.values():
            key = proposal.topic_partition
            assert key not in self._queued, f"OneProposal: {key} is queued and in flight"
        if not self._requests:
            assert not self._in_flight, f"OneProposal: {self._in_flight} without a request"


def _key(proposal: AlterPartitionProposal) -> tuple[TopicId, int]:
    """As the answers name it."""
    return proposal.topic_id, proposal.topic_partition.partition
