"""LossIsReported (P6): where an acknowledged record is gone, the controller has reported the very
election that it went with.

Every leader is read when its term begins, or its process: what was committed before and is not in
its log went with its election, unless a later leader brings it back. What a deposed leader commits
meanwhile went with the newest election. The controller must have reported that it gave up records
in that election: the same partition, leader and epoch. A report of another election does not count.

A partition without a leader waits for a replica that may have the record. That is reported by the
election that left the partition without a leader.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.controller.events import LeaderElected, LeaderLost, UncleanLeaderElected
from tidelog.env.event import Event
from tidelog.env.trace import TraceLine
from tidelog.log.log import Log
from tidelog.metadata.image import PartitionImage
from tidelog.records.batch import decode_batch, iter_headers
from tidelog.replication.partition import Partition
from tidelog.sim.checkers.base import Checker
from tidelog.sim.engine.host import Host
from tidelog.sim.evidence.oracle import committed_chunks


class Election(NamedTuple):
    """The leader of a partition in one leader epoch."""

    subject: str
    leader: int
    leader_epoch: int


class LossIsReported(Checker):
    """Follows every committed value of each partition, by the partition's name in the trace."""

    def __init__(self) -> None:
        # The newest election of each partition.
        self._newest: dict[str, Election] = {}
        # Epoch, process and high watermark of each leader when it was looked at last.
        self._seen: dict[Partition, tuple[int, int, int]] = {}
        # Values that some leader committed, and the elections that they went with.
        self._committed: dict[str, dict[str, None]] = {}
        self._gone: dict[str, dict[str, Election]] = {}
        # Elections of which a controller has reported that they gave up records.
        self._given_up: set[Election] = set()
        # Partitions and epochs of which a controller has reported that there is no leader.
        self._leaderless: set[tuple[str, int]] = set()
        # The leader that a controller has given records up for; its election follows at once. By
        # the controller's host and the partition.
        self._about_to_lead: dict[tuple[str, str], int | None] = {}

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

    def on_decision(self, host: str, event: Event | TraceLine) -> None:
        """Looks at what controllers decide about leaders."""
        match event:
            case UncleanLeaderElected():
                self._about_to_lead[host, event.subject] = event.leader
            case LeaderLost():
                self._leaderless.add((event.subject, event.leader_epoch))
            case LeaderElected():
                if self._about_to_lead.pop((host, event.subject), None) == event.leader:
                    self._given_up.add(Election(event.subject, event.leader, event.leader_epoch))

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

    def judge(self, subject: str, partition: PartitionImage, missing: Iterable[str]) -> None:
        """Demands a report of each acknowledged value that is not there, or cannot be read."""
        for value in missing:
            went = self._gone.get(subject, {}).get(value)
            waits = partition.leader < 0 and (subject, partition.leader_epoch) in self._leaderless
            if (went is None and waits) or went in self._given_up:
                continue
            self.reject(
                f"{subject}: `{value}` was acknowledged and is gone with {went}; now "
                f"{partition.leader} leads in epoch {partition.leader_epoch}, reported were "
                f"{sorted(self._given_up)}, leaderless {sorted(self._leaderless)}"
            )


def values_of(log: Log, start: int, end: int) -> dict[str, int]:
    """Every value of a log between two offsets, with its own."""
    return {
        (record.value or b"").decode(): record.offset
        for data in committed_chunks(log, start, end)
        for position, header in iter_headers(data)
        for record in decode_batch(data[position : position + header.size_bytes])
        if record.offset >= start
    }
