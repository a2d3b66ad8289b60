"""What is true of a quorum once any replica has shown it, and the checkers that hold it to that.

| property | says |
| --- | --- |
| ElectionSafety (I17) | one leader for each epoch |
| VoteUniqueness (I17) | a voter's granted votes name one candidate per epoch, crashes included |
| CommittedForever (I17) | an offset, once committed, has one content for all and for ever |
| Durability (I17) | what is committed is on the disks of a majority of voters, in its epoch |
| LeaderCompleteness (I17) | a leader has everything that was committed before its epoch |
| HighWatermarkMonotonic (I17) | within one life of a replica it never falls |
| SnapshotIsFoldOfLog (I17) | a snapshot says what the log below its end says |

They share one memory, so they live together; each method is one property.
"""

from collections.abc import Callable, Mapping

from tidelog.kraft.messages import CommittedBatch, ReplicaKey, SnapshotId, Voter
from tidelog.kraft.quorum import Quorum
from tidelog.log.log import Log
from tidelog.sim.report.violation import Violation


class QuorumOracle:
    """Everything that was shown so far."""

    def __init__(self, has_durable: Callable[[Voter, CommittedBatch], bool]) -> None:
        # Whether the disk of a voter, dead or alive, has a batch.
        self._has_durable = has_durable
        # Epoch to node.
        self._leaders: dict[int, int] = {}
        # (Voter, epoch) to candidate.
        self._votes: dict[tuple[ReplicaKey, int], int] = {}
        # Base offset to batch, and to the epoch of the replica that first showed it.
        self._committed: dict[int, CommittedBatch] = {}
        self._shown_in: dict[int, int] = {}
        # Exclusive end of everything committed.
        self.end_offset = 0

    def check_election_safety(self, node_id: int, epoch: int) -> bool:
        """A replica says that it leads; returns whether that is news."""
        known = self._leaders.get(epoch)
        if known is None:
            self._leaders[epoch] = node_id
            return True
        if known != node_id:
            raise Violation("ElectionSafety", f"{known} and {node_id} lead in epoch {epoch}")
        return False

    def check_leader_completeness(self, node_id: int, quorum: Quorum, log: Log) -> None:
        """A replica has just become leader."""
        who = f"{node_id} leads in epoch {quorum.epoch}"
        for offset, batch in self._committed.items():
            if self._shown_in[offset] >= quorum.epoch or batch.last_offset < log.log_start_offset:
                # What lies before the log's start is in a snapshot, and that is checked.
                continue
            end = log.log_end_offset
            if batch.last_offset >= end:
                text = f"{who} with log end {end}, {batch.last_offset} is committed"
                raise Violation("LeaderCompleteness", text)
            epoch = log.epoch_at(offset)
            if epoch != batch.epoch:
                text = f"{who} with epoch {epoch} at {offset}, committed with {batch.epoch}"
                raise Violation("LeaderCompleteness", text)

    def check_vote(self, voter: ReplicaKey, epoch: int, candidate_id: int) -> None:
        """A granted vote left a voter."""
        known = self._votes.setdefault((voter, epoch), candidate_id)
        if known != candidate_id:
            text = f"{voter.node_id} voted for {known} and {candidate_id} in epoch {epoch}"
            raise Violation("VoteUniqueness", text)

    def check_snapshot(self, node_id: int, snapshot_id: SnapshotId, records: list[bytes]) -> None:
        """A replica takes this for the state below the snapshot's end."""
        expected: list[bytes] = []
        epoch, end_offset = 0, 0
        for batch in self._committed.values():
            if batch.last_offset >= snapshot_id.end_offset:
                break
            epoch, end_offset = batch.epoch, batch.last_offset + 1
            if not batch.is_control:
                expected += batch.records
        if snapshot_id != (end_offset, epoch):
            text = f"{node_id} has snapshot {snapshot_id}, the log {end_offset}-{epoch}"
            raise Violation("SnapshotIsFoldOfLog", text)
        if records != expected:
            text = f"{node_id} has {len(records)} records at {snapshot_id}, the log {len(expected)}"
            raise Violation("SnapshotIsFoldOfLog", text)

    def check_committed(self, node_id: int, batch: CommittedBatch, quorum: Quorum) -> None:
        """A replica hands out a committed batch. The first to do so is the leader, and its voters
        are those whose majority counts. What is committed lets a change of the voters begin in the
        same step: then they are those before it."""
        known = self._committed.get(batch.base_offset)
        if known is not None:
            if known != batch:
                raise Violation("CommittedForever", f"{node_id} has {batch}, it was {known}")
            return
        if batch.base_offset != self.end_offset:
            text = f"{node_id} commits {batch.base_offset}, all ends at {self.end_offset}"
            raise Violation("CommittedForever", text)
        candidates, sets = [quorum.voters], quorum.voter_sets
        if len(sets) > 1 and sets[-1][0] > batch.last_offset:
            candidates.append(sets[-2][1])
        if not any(self._is_held(batch, voters) for voters in candidates):
            text = f"{batch.last_offset} is not durable on a majority of {sorted(quorum.voters)}"
            raise Violation("Durability", text)
        self._committed[batch.base_offset] = batch
        self._shown_in[batch.base_offset] = quorum.epoch
        self.end_offset = batch.last_offset + 1

    def _is_held(self, batch: CommittedBatch, voters: Mapping[int, Voter]) -> bool:
        holders = sum(self._has_durable(voter, batch) for voter in voters.values())
        return holders > len(voters) // 2
