"""LossIsTold (P6): where an acknowledged record went, somebody was told, and of that very election.

Every leader is read when its term begins, or its process: what was committed before and is not in
its log went with its election, unless a later leader brings it back. What a deposed leader commits
meanwhile went with the newest election. That election must have its line `gave up records`: the
same partition, leader and epoch. A line of another election tells nothing about the record.

A partition without a leader waits for somebody who may have it, and that is told when there is the
line of the election that left it without one.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from tidelog.log.log import Log
from tidelog.metadata.image import PartitionImage
from tidelog.records.batch import decode_batch, iter_headers
from tidelog.replication.partition import Partition
from tidelog.sim.engine.host import Host
from tidelog.sim.evidence.oracle import committed_chunks
from tidelog.sim.report.violation import Violation

_LINE: Final = re.compile(
    r" (\S+) change_partition: (gave up records|elected|leaderless) \(.*?\) leader=(-?\d+)"
    r"(?:.* leader_epoch=(\d+))?"
)


class Election(NamedTuple):
    """Who began to lead a partition, and when."""

    subject: str
    leader: int
    leader_epoch: int


class LossIsTold:
    """Follows every committed value of each partition, by the partition's name in the trace."""

    name = "LossIsTold"

    def __init__(self) -> None:
        # The newest election of each partition.
        self._newest: dict[str, Election] = {}
        # Epoch, process and high watermark of each leader when it was looked at last.
        self._seen: dict[Partition, tuple[int, int, int]] = {}
        # Values that some leader committed, and the elections that they went with.
        self._committed: dict[str, dict[str, None]] = {}
        self._gone: dict[str, dict[str, Election]] = {}

    def on_event(self, host: Host) -> None:
        """Looks at what a node leads."""
        assert host.node is not None, f"{host.name} has no process"
        for partition in host.node.broker.replicas.partitions.values():
            if partition.leadership is None or partition.offline is not None:
                continue
            state = (partition.leader_epoch, host.life, partition.log.high_watermark)
            last = self._seen.get(partition)
            if last != state:
                self._seen[partition] = state
                subject = str(partition.topic_partition)
                election = Election(subject, host.node_id, partition.leader_epoch)
                if last is None or last[:2] != state[:2]:
                    self._on_term(election, partition.log)
                self._on_advance(election, partition.log, 0 if last is None else last[2])

    def _on_term(self, election: Election, log: Log) -> None:
        newest = self._newest.get(election.subject, election)
        if election.leader_epoch < newest.leader_epoch:
            return
        self._newest[election.subject] = election
        held = values_of(log, log.log_start_offset, log.log_end_offset)
        gone = self._gone.setdefault(election.subject, {})
        for value in self._committed.setdefault(election.subject, {}):
            if value in held:
                gone.pop(value, None)
            else:
                gone.setdefault(value, election)

    def _on_advance(self, election: Election, log: Log, start: int) -> None:
        fresh = values_of(log, start, log.high_watermark)
        self._committed[election.subject].update(dict.fromkeys(fresh))
        newest = self._newest[election.subject]
        if election.leader_epoch < newest.leader_epoch:
            for value in fresh:
                self._gone[election.subject].setdefault(value, newest)

    # Judgement -----------------------------------------------------------------------------

    def judge(
        self, lines: Iterable[str], subject: str, partition: PartitionImage, missing: Iterable[str]
    ) -> None:
        """Demands a line for each acknowledged value that is not there, or not to be read."""
        given_up, leaderless = _told(lines, subject)
        for value in missing:
            went = self._gone.get(subject, {}).get(value)
            waits = partition.leader < 0 and partition.leader_epoch in leaderless
            if (went is None and waits) or went in given_up:
                continue
            raise Violation(
                self.name,
                f"{subject}: `{value}` was acknowledged and is gone with {went}; now "
                f"{partition.leader} leads in epoch {partition.leader_epoch}, told was of "
                f"{sorted(given_up)}, leaderless in {sorted(leaderless)}",
            )


def _told(lines: Iterable[str], subject: str) -> tuple[set[Election], set[int]]:
    """Elections of a partition that gave up records, by their lines; epochs without a leader."""
    given_up: set[Election] = set()
    leaderless: set[int] = set()
    said = -1
    for line in lines:
        match = _LINE.search(line)
        if match is None or match[1] != subject:
            continue
        leader, epoch = int(match[3]), int(match[4] or -1)
        if match[2] == "leaderless":
            leaderless.add(epoch)
        elif match[2] == "elected" and said == leader:
            given_up.add(Election(subject, leader, epoch))
        # The warning comes right before the election that it is about.
        said = leader if match[2] == "gave up records" else -1
    return given_up, leaderless


def values_of(log: Log, start: int, end: int) -> dict[str, int]:
    """Every value of a log between two offsets, with its own."""
    return {
        (record.value or b"").decode(): record.offset
        for data in committed_chunks(log, start, end)
        for position, header in iter_headers(data)
        for record in decode_batch(data[position : position + header.size_bytes])
        if record.offset >= start
    }
