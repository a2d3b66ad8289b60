"""What clients did, and what a new consumer reads when all faults are over.

Keys of topics that a client asked to delete are left out: nothing is promised about them.
"""

from dataclasses import replace

from tidelog.sim.checkers.base import Checker, Evidence
from tidelog.sim.checkers.log_history.checker import check_history
from tidelog.sim.evidence.history import Kind, Op, Outcome


class NothingLost(Checker):
    """V1: every record acknowledged with acks=all is read at the end, at its offset."""

    def at_end(self, evidence: Evidence) -> None:
        history = evidence.history
        for key, values in history.acknowledged.items():
            if key.topic in history.abandoned:
                continue
            found = {polled.value: polled.offset for polled in evidence.final.get(key, ())}
            for value, offset in values.items():
                was = f"{key}: `{value}`, acknowledged at {offset}"
                if value not in found:
                    self.reject(f"{was}, is nowhere")
                if offset >= 0 and found[value] != offset:
                    self.reject(f"{was}, is at {found[value]}")


class RepeatableRead(Checker):
    """I10: what a consumer once read at an offset is there for ever.

    Also for records without a promise that they stay: a reader who acted on one must not find it
    gone (R28), so nothing above what is committed may ever be served. What was read behind the
    final reading is looked for in the one after the last restart (seed 462135777).
    """

    def at_end(self, evidence: Evidence) -> None:
        final, again = (
            {key: {polled.offset: polled.value for polled in values} for key, values in one.items()}
            for one in (evidence.final, evidence.after_restart)
        )
        for op in evidence.history.ops:
            is_later = op.completed_at > evidence.final_at
            if is_later and not again:
                continue
            for key, values in op.polled.items():
                if key.topic in evidence.history.abandoned:
                    continue
                for offset, value in values:
                    now = (again if is_later else final).get(key, {}).get(offset)
                    if now != value:
                        self.reject(
                            f"{key} {offset}: {op.process} read `{value}` at {op.completed_at} ms, "
                            f"in the end it is `{now}`"
                        )


class NoDuplicates(Checker):
    """I23: a value is in the log once.

    Every producer of the workload either sends a value in one attempt or is idempotent, so a value
    at two offsets means that a retry was appended again.
    """

    def at_end(self, evidence: Evidence) -> None:
        for key, values in evidence.final.items():
            seen: dict[str, int] = {}
            for offset, value in values:
                if value in seen:
                    self.reject(f"{key}: `{value}` is at {seen[value]} and {offset}")
                seen[value] = offset


class ProducerOrder(Checker):
    """I22: records are in the order in which their producer sent them.

    Values carry the number of their sending, so they must rise per producer and partition. Gaps are
    fine: a record may have been lost. An idempotent producer is held to this over all its
    connections, a plain one on each connection: what a connection that was given up still carries
    may land behind what was sent over the next.
    """

    def at_end(self, evidence: Evidence) -> None:
        sends = [op for op in evidence.history.ops if op.kind is Kind.SEND]
        connections = {sent.value: op.connection for op in sends for sent in op.sent}
        for key, values in evidence.final.items():
            last: dict[tuple[str, int], int] = {}
            for offset, value in values:
                producer, _, text = value.partition(":")
                sequence = (producer, connections[value])
                if int(text) <= last.get(sequence, 0):
                    self.reject(f"{key} {offset}: `{value}` follows `{producer}:{last[sequence]}`")
                last[sequence] = int(text)


class RestartLosesNothing(Checker):
    """V7: after all nodes restarted at once everything promised is there.

    With group commit all machines lose power and start from their durable images; without it all
    processes are killed. What a new consumer read before it reads again, record by record.
    """

    def at_end(self, evidence: Evidence) -> None:
        for key, before in evidence.final.items():
            after = evidence.after_restart.get(key, ())
            if after[: len(before)] != before:
                differ = next(
                    (pair for pair in zip(before, after, strict=False) if pair[0] != pair[1]),
                    (before[len(after) :][:1], "nothing"),
                )
                self.reject(f"{key}: {differ[0]} was read before the restart, {differ[1]} after")


class HistoryIsALog(Checker):
    """V1, V2: the clients' own history has no illegal anomaly.

    The operations of the run and the last read of everything go through the log checker.
    """

    def at_end(self, evidence: Evidence) -> None:
        history, now = evidence.history, evidence.world.now
        last = Op(
            len(history.ops),
            "final",
            Kind.POLL,
            Outcome.OK,
            polled=evidence.final,
            invoked_at=now,
            completed_at=now,
        )
        ops = [_without(op, history.abandoned) for op in (*history.ops, last)]
        report = check_history(ops)
        if report.anomalies:
            self.reject("; ".join(map(str, report.anomalies[:3])))


def _without(op: Op, abandoned: set[str]) -> Op:
    keys = (*(sent.key for sent in op.sent), *op.polled, *op.assigned)
    if not any(key.topic in abandoned for key in keys):
        return op
    return replace(
        op,
        sent=tuple(sent for sent in op.sent if sent.key.topic not in abandoned),
        polled={key: values for key, values in op.polled.items() if key.topic not in abandoned},
        assigned=tuple(key for key in op.assigned if key.topic not in abandoned),
    )
