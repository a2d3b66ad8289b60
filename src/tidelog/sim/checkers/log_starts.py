"""Where logs begin: records go from the beginning of a log for a reason only."""

from tidelog.log.log import Log
from tidelog.sim.checkers.base import Checker, Evidence
from tidelog.sim.evidence.cleaned import CleanedBatch
from tidelog.sim.evidence.oracle import PartitionId, may_lose_its_beginning, partition_id


class LogStartIsLawful(Checker):
    """A log start rises for a reason: a client asked for it by DeleteRecords, the records are older
    than `retention.ms`, or as much as `retention.bytes` is left behind them.

    Looked at in each sweep, at topics with a retention of seconds; the furthest log start of all
    replicas counts, since followers take over their leader's. A batch is as old as its newest
    record, by the wall clock that was ever furthest ahead. Of a compacted topic only the newest
    values are looked at: anything else may have been gone before. How much a leader had behind its
    log start is not known once its process has ended (seed 404554187): its records that no replica
    had count, too.
    """

    def __init__(self) -> None:
        # The highest log start of any replica that was found right.
        self._judged: dict[PartitionId, int] = {}
        # The logs of the last sweep.
        self._former: dict[PartitionId, list[Log]] = {}

    def sweep(self, evidence: Evidence) -> None:
        logs: dict[PartitionId, list[Log]] = {}
        for _, partition in evidence.replicas():
            if partition.offline is None and may_lose_its_beginning(partition.log.config):
                logs.setdefault(partition_id(partition), []).append(partition.log)
        for pid, replicas in logs.items():
            true_log = evidence.oracle.logs.get(pid)
            start = max(log.log_start_offset for log in replicas)
            asked = evidence.history.deleted_below.get((pid.topic, pid.partition), 0)
            known = max(self._judged.get(pid, 0), asked)
            if true_log is not None and start > known:
                have_ended = any(one not in replicas for one in self._former.get(pid, ()))
                if not (have_ended and replicas[0].config.retention_bytes >= 0):
                    self._judge(evidence, pid, replicas, true_log.contents, (known, start))
                self._judged[pid] = start
        self._former = logs

    def _judge(
        self,
        evidence: Evidence,
        pid: PartitionId,
        replicas: list[Log],
        contents: list[CleanedBatch],
        gone: tuple[int, int],
    ) -> None:
        known, start = gone
        config = replicas[0].config
        if config.retention_bytes >= 0 and any(
            _bytes_from(log, start) >= config.retention_bytes or _was_larger(log)
            for log in replicas
        ):
            return
        oldest_ms = evidence.latest_wall_ms - config.retention_ms
        newest = {record.key: record.offset for batch in contents for record in batch.records}
        for batch in contents:
            if not (known <= batch.last_offset and batch.base_offset < start):
                continue
            counting = [
                record.timestamp
                for record in batch.records
                if "compact" not in config.cleanup_policy
                or (record.value is not None and newest[record.key] == record.offset)
            ]
            if config.retention_ms < 0 or max(counting, default=0) >= oldest_ms:
                self.reject(
                    f"{pid} begins at {start} and was known to begin at {known}; the batch at "
                    f"{batch.base_offset} has records of {counting}, old is what was written "
                    f"before {oldest_ms}"
                )


def _bytes_from(log: Log, start: int) -> int:
    return sum(one.size_bytes for one in log.segments if one.base_offset >= start)


def _was_larger(log: Log) -> bool:
    """Whether the log may have had more bytes when retention looked at it."""
    return log.cleaned_to >= 0 or log.ledger.truncation_count > 0
