"""One replica's log of one partition, as other packages see it.

A log is its state (`state.py`, which also moves the log start) and the operations on it. Each
concern is a module of functions over the state, and `Log` has them as its methods:

| module | job |
| --- | --- |
| `appending` | the append paths of leaders and followers |
| `reading` | reads from memory and disk, records by time, aborted transactions |
| `truncation` | dropping the end of the log, or all of it |
| `rolling`, `flushing` | sealing segments; what is not durable yet |
| `loading`, `recovery`, `replacement` | opening a log, and what a crash left of it |

Source: KIP-98, KIP-101, KIP-1123; Kafka's `UnifiedLog` and `LocalLog`; Ongaro, Raft §3.
"""

from tidelog.config import LogConfig
from tidelog.log import appending, reading, rolling, truncation
from tidelog.log.state import LogState
from tidelog.log.values import LogFlush
from tidelog.model import EpochEndOffset


class Log(LogState):
    """One replica of one partition; made by `LogDirectory` (or `loading.open_log`). Its state and
    what can be done with it. The fields are for the modules of this package to write; others read
    the offsets and set `announced_end`."""

    __slots__ = ()

    append_as_leader = appending.append_as_leader
    append_as_follower = appending.append_as_follower
    read = reading.read
    offset_for_timestamp = reading.offset_for_timestamp
    max_timestamp = reading.max_timestamp
    aborted_in = reading.aborted_in
    verified = reading.verified
    verify = reading.verify
    truncate_to = truncation.truncate_to
    shorten = truncation.shorten
    end_below = truncation.end_below
    truncate_fully_and_start_at = truncation.truncate_fully_and_start_at
    assign_topic_id = rolling.assign_topic_id
    request_flush = rolling.request_flush
    request_flush_of_name = rolling.request_flush_of_name
    is_saved = property(rolling.is_saved)
    prepare_close = rolling.prepare_close

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments' log files."""
        return self.segments.size_bytes

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch of the log; -1 for none."""
        return self.epochs.latest_epoch

    def assign_epoch(self, leader_epoch: int, start_offset: int) -> bool:
        """Notes that a leader epoch starts at `start_offset`: a new leader's first step."""
        return self.epochs.begin(leader_epoch, start_offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset:
        """The largest epoch at or below the given one and where it ends here."""
        return self.epochs.end_offset_for(leader_epoch, self.log_end_offset)

    def epoch_at(self, offset: int) -> int:
        """The leader epoch that wrote `offset`; -1 when unknown."""
        return self.epochs.epoch_at(offset)

    def reconfigure(self, config: LogConfig) -> None:
        """Applies another configuration from the next append on."""
        self.config = config
        if "compact" in config.cleanup_policy:
            for segment in self.segments:
                segment.batches.contiguous = False

    def on_flushed(self, subject: LogFlush) -> None:
        """Moves the recovery point; look at `recovery_point` afterwards. Only the last answer of a
        group counts, and none that was requested before a truncation."""
        if subject.topic_id == self.topic_id:
            durable = self.ledger.answered(subject)
            if durable is not None:
                self.move_recovery_point(max(self.recovery_point, durable))

    def close(self) -> None:
        """Releases all files; the log must not be used any more."""
        for segment in self.segments:
            segment.close()
        self.ledger.close()
        self.tail.clear()
        self.failure = "the log is closed"
