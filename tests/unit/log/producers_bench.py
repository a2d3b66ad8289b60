"""A leader and its follower with producers that repeat, abort and begin new epochs, in a random
order with elections, deletions and ends of processes and machines; and what must then be known.

What the two logs have is kept beside them, so each answer and each reading has an expected one.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from tests.unit.log.harness import WALL_MS, LogBench, batch
from tidelog.broker.share_fetches import aborted_spans
from tidelog.config import LogConfig
from tidelog.env.effects import FileSlice
from tidelog.env.prng import Prng
from tidelog.errors import ProtocolError
from tidelog.log.log import Log
from tidelog.log.state import UNCUT
from tidelog.log.values import AppendOrigin
from tidelog.records.batch import iter_headers
from tidelog.records.control import EndTxnMarker, build_end_txn_marker

STEP_MS = 1000
IDLE_STEPS = 60
ANCIENT_MS = 1000
CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=200)


class Sent(NamedTuple):
    """A batch as its producer has made it."""

    producer_id: int
    epoch: int
    sequence: int
    count: int
    timestamp: int
    # Number of its transaction, -1 outside of any.
    transaction: int

    @property
    def data(self) -> bytes:
        return batch(
            self.count,
            self.timestamp,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            sequence=self.sequence,
            transactional=self.transaction >= 0,
        )


class Entry(NamedTuple):
    """A batch of a log; a marker has nothing that was sent."""

    first: int
    last: int
    producer_id: int
    epoch: int
    sent: Sent | None


@dataclass(slots=True)
class Replica:
    """A log, and all that was ever written to it and not cut."""

    bench: LogBench = field(default_factory=lambda: LogBench(CONFIG))
    entries: list[Entry] = field(default_factory=list)

    @property
    def log(self) -> Log:
        return self.bench.log

    def cut(self) -> None:
        """The log has no more than it has."""
        end = self.log.log_end_offset
        self.entries = [each for each in self.entries if each.last < end]
        assert end == (self.entries[-1].last + 1 if self.entries else 0), (end, self.entries[-3:])

    def find(self, sent: Sent) -> Entry | None:
        """Where a batch is."""
        return next((each for each in reversed(self.entries) if each.sent == sent), None)

    def of(self, producer_id: int) -> list[Entry]:
        """What the log has of a producer."""
        return [each for each in self.entries if each.producer_id == producer_id]


@dataclass(slots=True)
class Client:
    """A producer."""

    producer_id: int
    is_transactional: bool
    bumps_epoch: bool
    is_ancient: bool
    epoch: int = 0
    sequence: int = 0
    # Made and not acknowledged; and the five last ones.
    pending: list[Sent] = field(default_factory=list)
    recent: list[Sent] = field(default_factory=list)
    transaction: int = -1
    # Whether the transaction commits, once that is decided; and the epoch of its marker.
    decision: bool | None = None
    marker_epoch: int = 0
    wrote_at: int = 0


class ProducersBench:
    """The two replicas and the producers."""

    def __init__(self, seed: int) -> None:
        self.prng = Prng(seed)
        self.replicas = [Replica(), Replica()]
        self.leads = 0
        self.epoch = 0
        self.now_ms = WALL_MS
        self.made = 0
        self.clients: list[Client] = []
        self.transactions = 0
        # What became of each transaction that is decided.
        self.committed: dict[int, bool] = {}
        for _ in range(3):
            self.add_client()
        self.leader.log.assign_epoch(0, 0)
        # No machine dies before the logs have their names.
        self.leader.log.append_as_leader(batch(), 0, WALL_MS)
        self.leader.entries.append(Entry(0, 0, -1, -1, None))
        self.replicate(everything=True)
        for replica in self.replicas:
            replica.log.request_flush()
            replica.bench.settle()

    @property
    def leader(self) -> Replica:
        return self.replicas[self.leads]

    @property
    def follower(self) -> Replica:
        return self.replicas[1 - self.leads]

    def add_client(self) -> None:
        kind = self.prng.below(4)
        ancient = self.prng.chance(1, 4)
        self.clients.append(Client(100 + self.made, kind > 0, kind > 1, ancient))
        self.clients[-1].wrote_at = self.now_ms
        self.made += 1

    def run(self, steps: int) -> None:
        """So many steps, and what must be true behind each."""
        for _ in range(steps):
            self.now_ms += STEP_MS
            self.step()
            for index, client in enumerate(self.clients):
                if self.now_ms - client.wrote_at >= IDLE_STEPS * STEP_MS // 2:
                    self.settle_client(client)
                    client.wrote_at = self.now_ms
                    del self.clients[index]
                    self.add_client()
                    break
            for replica in self.replicas:
                replica.log.check()
            self.read(self.prng.choice(self.replicas))

    def step(self) -> None:
        draw = self.prng.below(100)
        client = self.prng.choice(self.clients)
        if draw < 30:
            self.produce(client)
        elif draw < 42:
            self.resend(client)
        elif draw < 52:
            self.end(client)
        elif draw < 70:
            self.replicate()
        elif draw < 74:
            if self.follower.log.log_end_offset >= self.leader.log.high_watermark:
                self.elect()
        elif draw < 77:
            self.delete()
        elif draw < 80:
            self.expire()
        elif draw < 84:
            replica = self.prng.choice(self.replicas)
            if replica.log.segments.active.size_bytes:
                replica.bench.roll()
        elif draw < 89:
            replica = self.prng.choice(self.replicas)
            replica.log.request_flush()
            replica.bench.settle()
        elif draw < 92:
            self.checkpoint(self.prng.choice(self.replicas))
        else:
            self.restart()

    # Producers ------------------------------------------------------------------------------

    def produce(self, client: Client) -> None:
        if client.decision is not None or len(client.pending) >= 5:
            return
        if client.is_transactional and client.transaction < 0:
            client.transaction = self.transactions
            self.transactions += 1
        count = self.prng.between(1, 4)
        timestamp = ANCIENT_MS if client.is_ancient else self.now_ms - self.prng.below(5000)
        sent = Sent(
            client.producer_id, client.epoch, client.sequence, count, timestamp, client.transaction
        )
        client.sequence += count
        client.pending.append(sent)
        client.recent = [*client.recent, sent][-5:]
        if self.prng.chance(5, 6):
            self.send(client, sent)

    def resend(self, client: Client) -> None:
        """All that is not acknowledged, in order, or anything of late."""
        if client.decision is not None:
            return
        if client.recent and self.prng.chance(1, 3):
            self.send(client, self.prng.choice(client.recent))
        else:
            for sent in list(client.pending):
                self.send(client, sent)
        self.acknowledge()

    def acknowledge(self) -> None:
        """Producers learn what is committed."""
        committed = self.leader.log.high_watermark
        for client in self.clients:
            while client.pending:
                found = self.leader.find(client.pending[0])
                if found is None or found.last >= committed:
                    break
                del client.pending[0]

    def send(self, client: Client, sent: Sent) -> None:
        """One request, and the answer that it must have."""
        leader = self.leader
        known = leader.of(sent.producer_id)
        found = leader.find(sent)
        expected = 0
        if known and known[-1].epoch == sent.epoch:
            ours = [each.sent for each in known if each.sent and each.epoch == sent.epoch]
            expected = ours[-1].sequence + ours[-1].count if ours else 0
        elif not known:
            expected = sent.sequence
        end = leader.log.log_end_offset
        try:
            result = leader.log.append_as_leader(sent.data, self.epoch, self.now_ms)
        except ProtocolError as error:
            # A start knows only the last batch of a producer whose records are in no file any more,
            # or are so old that it seems to be idle.
            first = leader.log.segments.first_base_offset
            is_gone = found and (found.last < first or sent.timestamp == ANCIENT_MS)
            assert found is None or is_gone, f"{sent} is at {found}, refused: {error.message}"
            assert sent.sequence != expected or known[-1].epoch > sent.epoch, (sent, error.message)
            return
        if found is not None:
            assert result.duplicate, f"{sent} is there twice: {found.first} {result.first_offset}"
            assert result.first_offset == found.first
            return
        assert not result.duplicate, f"{sent} is not there"
        assert sent.sequence == expected, f"{sent} was taken, expected {expected}"
        entry = Entry(end, end + sent.count - 1, sent.producer_id, sent.epoch, sent)
        assert result[:2] == entry[:2]
        leader.entries.append(entry)
        client.wrote_at = self.now_ms

    def end(self, client: Client) -> None:
        """The next step towards the end of a transaction."""
        if client.transaction < 0:
            return
        if client.decision is None:
            commits = not client.pending and self.prng.chance(1, 2)
            client.decision = self.committed[client.transaction] = commits
            bumps = client.bumps_epoch or bool(client.pending)
            client.marker_epoch = client.epoch + bumps
        self.write_marker(client)

    def write_marker(self, client: Client) -> None:
        """Writes the marker, or goes on if it is committed."""
        leader = self.leader
        known = leader.of(client.producer_id)
        is_there = (
            bool(known) and known[-1].sent is None and (known[-1].epoch == client.marker_epoch)
        )
        if is_there and known[-1].last < leader.log.high_watermark:
            if client.marker_epoch != client.epoch:
                client.epoch, client.sequence, client.recent = client.marker_epoch, 0, []
            client.pending.clear()
            client.transaction, client.decision = -1, None
            return
        if is_there and self.prng.chance(1, 2):
            return
        assert client.decision is not None
        data = build_end_txn_marker(
            EndTxnMarker(client.decision, 0), client.producer_id, client.marker_epoch, self.now_ms
        )
        end = leader.log.log_end_offset
        leader.log.append_as_leader(
            data,
            self.epoch,
            self.now_ms,
            origin=AppendOrigin.COORDINATOR,
            bumps_epoch=client.bumps_epoch,
        )
        leader.entries.append(Entry(end, end, client.producer_id, client.marker_epoch, None))
        client.wrote_at = self.now_ms

    def settle_client(self, client: Client) -> None:
        """A producer that goes has no transaction."""
        while client.transaction >= 0:
            self.end(client)
            self.replicate(everything=True)

    # Replication ----------------------------------------------------------------------------

    def replicate(self, *, everything: bool = False) -> None:
        """The follower fetches, and what both have is committed."""
        leader, follower = self.leader, self.follower
        while follower.log.log_end_offset < leader.log.log_end_offset:
            start = follower.log.log_end_offset
            most = 600 if self.prng.chance(1, 2) else 200
            read = leader.log.read(start, most, leader.log.log_end_offset, at_least_one=True)
            data = b"".join(
                chunk.file.read(chunk.position, chunk.length)
                if isinstance(chunk, FileSlice)
                else bytes(chunk)
                for chunk in read.chunks
            )
            end = follower.log.append_as_follower(data, self.epoch).last_offset + 1
            follower.entries += [each for each in leader.entries if start <= each.first < end]
            follower.cut()
            if not everything and self.prng.chance(1, 2):
                break
        self.commit()

    def commit(self) -> None:
        leader, follower = self.leader.log, self.follower.log
        committed = min(leader.log_end_offset, follower.log_end_offset)
        leader.update_high_watermark(max(leader.high_watermark, committed))
        if self.prng.chance(2, 3):
            follower.update_high_watermark(max(follower.high_watermark, leader.high_watermark))
            follower.maybe_raise_log_start_offset(
                min(leader.log_start_offset, follower.high_watermark)
            )
        self.acknowledge()

    def elect(self) -> None:
        """The other replica leads; the former leader is cut to what both have."""
        self.leads = 1 - self.leads
        self.epoch += 1
        leader, follower = self.leader, self.follower
        leader.log.assign_epoch(self.epoch, leader.log.log_end_offset)
        both = 0
        for one, other in zip(leader.entries, follower.entries, strict=False):
            if one != other:
                break
            both = one.last + 1
        follower.log.announced_end = both
        follower.bench.directory.checkpoint_recovery_points()
        follower.bench.settle()
        follower.log.truncate_to(both)
        follower.log.announced_end = UNCUT
        follower.log.request_flush()
        follower.bench.settle()
        follower.cut()

    def delete(self) -> None:
        """Records go, on the leader and sooner or later on the follower."""
        leader = self.leader.log
        most = min(leader.high_watermark, self.follower.log.log_end_offset)
        for replica in self.replicas:
            replica.log.request_flush()
            replica.bench.settle()
        if most > leader.log_start_offset:
            start = self.prng.between(leader.log_start_offset, most)
            leader.maybe_raise_log_start_offset(start)
        for replica in self.replicas:
            if self.prng.chance(1, 2):
                self.checkpoint(replica)
                replica.log.delete_segments_below(replica.log.log_start_offset, 9)

    def expire(self) -> None:
        """Producers that were idle for long are forgotten; those of old records are not if they
        have written since the last time."""
        for client in list(self.clients):
            if client.is_ancient:
                self.settle_client(client)
                self.clients.remove(client)
                self.add_client()
        replica = self.prng.choice(self.replicas)
        replica.log.producers.expire(self.now_ms, IDLE_STEPS * STEP_MS)

    # Processes ------------------------------------------------------------------------------

    def checkpoint(self, replica: Replica) -> None:
        directory = replica.bench.directory
        directory.checkpoint_log_start_offsets()
        directory.checkpoint_recovery_points()
        directory.checkpoint_high_watermarks()
        replica.bench.settle()

    def restart(self) -> None:
        """A replica stops, dies, or loses power, and starts."""
        replica, way = self.prng.choice(self.replicas), self.prng.below(3)
        other = self.replicas[replica is self.replicas[0]]
        if way == 0:
            replica.bench.reopen_cleanly()
        elif way == 1:
            replica.bench.reopen_after_kill()
        elif replica is self.follower:
            replica.bench.reopen_after_power_cut(self.prng)
        elif other.log.log_end_offset >= self.leader.log.high_watermark:
            replica.bench.reopen_after_power_cut(self.prng)
            replica.cut()
            self.elect()
        replica.cut()
        if replica is self.leader:
            self.epoch += 1
            replica.log.assign_epoch(self.epoch, replica.log.log_end_offset)
            self.commit()

    # Readers --------------------------------------------------------------------------------

    def read(self, replica: Replica) -> None:
        """What a reader of decided transactions is shown, from any offset on."""
        log = replica.log
        stable, start = log.last_stable_offset, log.log_start_offset
        self.check_stable(replica)
        self.look_up(replica)
        offset = self.prng.between(start, stable)
        found = log.read(offset, self.prng.choice((150, 400, 4000)), stable, at_least_one=True)
        if not found.chunks:
            assert offset == stable, f"nothing at {offset} below {stable}"
            return
        data = b"".join(
            chunk.file.read(chunk.position, chunk.length)
            if isinstance(chunk, FileSlice)
            else bytes(chunk)
            for chunk in found.chunks
        )
        headers = [header for _, header in iter_headers(data)]
        hidden = {
            span.first for span in aborted_spans(headers, log.aborted_in(offset, found.next_offset))
        }
        expected = [
            each
            for each in replica.entries
            if each.last >= offset and each.first < found.next_offset
        ]
        assert [header.base_offset for header in headers] == [each.first for each in expected]
        for each in expected:
            if each.sent is not None and each.sent.transaction >= 0:
                commits = self.committed.get(each.sent.transaction)
                assert commits is not None, f"{each} is shown below {stable}, undecided"
                assert commits is (each.first not in hidden), f"{each} {commits} from {offset}"
            else:
                assert each.first not in hidden, f"{each} is hidden"

    def check_stable(self, replica: Replica) -> None:
        """The last stable offset is neither above an open transaction nor held up by none."""
        log = replica.log
        begun: dict[int, int] = {}
        visible: dict[int, int] = {}
        unstable = log.high_watermark
        for each in replica.entries:
            if each.producer_id < 0:
                continue
            if each.sent is None:
                first = begun.pop(each.producer_id, None)
                visible.pop(each.producer_id, None)
                if first is not None and each.last >= log.high_watermark:
                    unstable = min(unstable, first)
            elif each.sent.transaction >= 0:
                begun.setdefault(each.producer_id, each.first)
                if each.last >= log.log_start_offset:
                    visible.setdefault(each.producer_id, each.first)
        stable = log.last_stable_offset
        least = max(log.log_start_offset, min((unstable, *begun.values())))
        assert stable >= least, f"held up at {stable} below {least}"
        for first in visible.values():
            assert stable <= max(first, log.log_start_offset), f"{stable} is above {first}"

    def look_up(self, replica: Replica) -> None:
        """The first record at or after some time, and one with the largest."""
        log = replica.log
        records = [
            (each.sent.timestamp + index, each.first + index)
            for each in replica.entries
            if each.sent is not None
            for index in range(each.sent.count)
            if each.first + index >= log.log_start_offset
        ]
        if not records:
            return
        wanted = self.prng.choice(records)[0] + self.prng.below(3) - 1
        found = log.offset_for_timestamp(wanted)
        expected = next((each for each in records if each[0] >= wanted), None)
        assert expected is None or (found and found[1] <= expected[1]), (wanted, expected, found)
