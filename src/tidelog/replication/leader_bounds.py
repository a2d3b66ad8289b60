"""Where the leader's log ends and starts: what a follower asks for when its fetch is out of range.

1. Where does the leader's log end? Below this log's end: an unclean election has left a leader with
   less than its followers. This log is cut there.
2. Otherwise, where does it start? Above this log's end: the leader has deleted everything that is
   here. This log begins anew there.
3. Otherwise the offset is in range by now, because the leader has moved since. The partition is
   fetched again, after a pause.

One ListOffsets per leader is in flight; it names all partitions that need an answer.
"""

from collections.abc import Sequence

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode, LogDamaged, StorageError
from tidelog.model import TopicPartition
from tidelog.replication import messages
from tidelog.replication.events.following import DelayReason, RestartReason, TruncationReason
from tidelog.replication.fetch_answers import FetchAnswers
from tidelog.replication.fetch_state import FetchState, FollowedPartitions, Phase
from tidelog.replication.follower import Cut


class LeaderBounds:
    """Asks one leader for the bounds of its logs, and applies the answers."""

    __slots__ = ("_answers", "_followed", "token")

    def __init__(self, followed: FollowedPartitions, answers: FetchAnswers) -> None:
        self._followed = followed
        self._answers = answers
        # The ListOffsets in flight.
        self.token: messages.Token | None = None

    def maybe_send(self) -> bool:
        """Asks for every partition that needs it, unless a request is in flight."""
        followed = self._followed
        if not followed.unqueried or self.token is not None:
            return False
        queries = []
        for state in followed.unqueried:
            topic, partition = state.partition.topic_partition
            latest = state.phase is Phase.NEEDS_LOG_END
            timestamp = messages.LATEST_TIMESTAMP if latest else messages.EARLIEST_TIMESTAMP
            queries.append(
                messages.ListOffsetsQuery(topic, partition, state.leader_epoch, timestamp)
            )
            followed.queried[state.partition.topic_partition] = state
        followed.unqueried.clear()
        outbox = followed.env.outbox
        self.token = outbox.new_token()
        outbox.emit(messages.SendListOffsets(followed.leader_id, self.token, tuple(queries)))
        return True

    def on_list_offsets_response(
        self, results: Sequence[messages.ListOffsetsResult] | None, now: Instant
    ) -> None:
        """Applies the answer to the request in flight, `None` when there was none."""
        assert self.token is not None, "no ListOffsets is in flight"
        self.token = None
        queried, self._followed.queried = self._followed.queried, {}
        for result in results or ():
            state = queried.pop(TopicPartition(result.topic, result.partition), None)
            if state is None:
                continue
            if result.error_code is not ErrorCode.NONE:
                self._delay(state, result.error_code, now)
                continue
            try:
                self._on_offset(state, result.offset, now)
            except (StorageError, LogDamaged) as error:
                self._answers.fail(state, error)
        for state in queried.values():
            self._delay(state, DelayReason.NO_ANSWER, now)

    def _on_offset(self, state: FetchState, offset: int, now: Instant) -> None:
        log = state.partition.log
        latest = state.phase is Phase.NEEDS_LOG_END
        if latest and offset >= log.log_end_offset:
            self._followed.enter(state, Phase.NEEDS_LOG_START)
        elif latest:
            self._answers.cut(state, Cut(offset, TruncationReason.LEADER_ENDS_HERE))
        elif offset > log.log_end_offset:
            self._answers.cut(state, Cut(offset, RestartReason.LEFT_BEHIND))
        else:
            # Not at once: nothing here has changed, and the same answer may come again.
            self._delay(state, DelayReason.IN_RANGE, now)

    def _delay(self, state: FetchState, reason: DelayReason | ErrorCode, now: Instant) -> None:
        self._answers.delay(state, reason, now, handler="on_list_offsets_response")
