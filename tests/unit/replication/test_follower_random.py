"""Elections, cuts and crashes in any order: what is committed stays, and nothing else counts as it.

Method: three replicas of one partition with the real logs, roles and fetchers; the driver is the
network, the disks and the controller. It draws appends, fetches whose answers come late, elections,
deletions of records, checkpoints, and deaths of the process and of the machine, also in the middle
of an operation on the disk. In most seeds a leader is elected from the in-sync replicas alone; in
the others a replica that has lost records may lead too. A seed is one order of all that.
"""

from collections.abc import Callable

import pytest

from tests.unit.log.harness import PARTITION, WALL_MS, batch
from tests.unit.replication.follower_bench import Replica
from tidelog.config import LogConfig
from tidelog.env.instant import Instant
from tidelog.env.memory_disk import Operation
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.log.deleted_files import DeletedSegment
from tidelog.log.reading import as_buffer
from tidelog.log.values import AppendOrigin
from tidelog.metadata.image import PartitionImage
from tidelog.model import NO_EPOCH, ZERO_TOPIC_ID, EpochEndOffset
from tidelog.records.control import EndTxnMarker, build_end_txn_marker
from tidelog.replication.fetch_reading import _divergence
from tidelog.replication.messages import (
    EARLIEST_TIMESTAMP,
    ListOffsetsResult,
    SendFetch,
    SendListOffsets,
)
from tidelog.sim.engine.disk import ProcessKilled
from tidelog.sim.replicas.reading import Written, records_of
from tidelog.wire.fetch import FetchedPartition, FetchPartition, FetchResponse

NODES = (1, 2, 3)


class Cluster:
    """Three replicas and a controller."""

    def __init__(self, seed: int) -> None:
        self.prng = prng = Prng(seed)
        mode = prng.choice((0, 1, 2, 3, 3))
        # Whether a replica that lacks records may lead, and whether machines die.
        self.may_lose, self.power_cuts = mode == 3, mode != 2
        self.group_commit = mode < 2
        self.config = LogConfig(
            segment_bytes=prng.choice((450, 700, 2000)),
            index_interval_bytes=prng.choice((100, 4096)),
            min_insync_replicas=1,
            flush_messages=1 if self.group_commit else 1 << 40,
        )
        self.now = Instant(1000)
        self.epoch = self.partition_epoch = 0
        self.isr: tuple[int, ...] = NODES
        self.leader = -1
        self.image = PartitionImage(NODES, NODES, -1, 0, 0)
        # What is committed, by offset, and where that ends.
        self.committed: dict[int, Written] = {}
        self.end = 0
        self.deleted_to = 0
        # The first term whose leader shows nothing else than what is committed.
        self.trusted_from = 0
        self.values = 0
        self.sequences = dict.fromkeys(range(4), 0)
        self.epochs = dict.fromkeys(range(4), 0)
        self.replicas = {node: Replica(node, self.config) for node in NODES}
        self.elect()

    # The controller ---------------------------------------------------------------------------

    @property
    def running(self) -> list[Replica]:
        return [each for each in self.replicas.values() if each.running]

    def leading(self) -> Replica | None:
        leader = self.replicas.get(self.leader)
        return leader if leader is not None and leader.running else None

    def change(self, leader: int, isr: tuple[int, ...], *, new_term: bool) -> None:
        self.partition_epoch += 1
        self.epoch += new_term
        self.leader, self.isr = leader, isr
        self.image = PartitionImage(NODES, isr, leader, self.epoch, self.partition_epoch)

    def publish(self, replica: Replica) -> None:
        """A replica follows the newest metadata."""
        partition, image = replica.partition, self.image
        if partition.objection_to(image) is not None:
            return
        assert image.leader_epoch >= replica.log.latest_epoch
        if image.leader == replica.node_id:
            if partition.become_leader(image, self.now):
                replica.fetchers.stop(partition)
            return
        if not partition.become_follower(image):
            return
        replica.wanted = None
        if image.leader < 0:
            replica.fetchers.stop(partition)
        else:
            replica.fetchers.follow(partition)

    def elect(self) -> None:
        """Another leader, or the same one anew."""
        able = [each for each in self.running if each.node_id in self.isr]
        clean = [each for each in able if not each.lacks_claimed]
        if clean and not (self.may_lose and self.prng.chance(1, 4)):
            leader, is_clean = self.prng.choice(clean), True
        elif self.may_lose and self.running:
            leader = self.prng.choice(self.running)
            is_clean = leader in clean
        else:
            if self.leading() is None and self.leader >= 0:
                self.change(-1, self.isr, new_term=True)
            return
        log = leader.log
        held = {each.offset: each for each in records_of(log)}
        if is_clean:
            assert log.high_watermark <= self.end, f"{log.high_watermark} of {self.end}"
            lacking = [
                each
                for offset, each in self.committed.items()
                if offset >= log.log_start_offset and held.get(offset) != each
            ]
            assert not lacking and log.log_end_offset >= self.end, f"{leader.node_id} {lacking}"
            assert log.log_start_offset <= self.deleted_to, f"{log.log_start_offset}"
            self.change(leader.node_id, self.isr, new_term=True)
        else:
            # What it says is the truth from now on.
            self.committed = {o: each for o, each in held.items() if o < log.high_watermark}
            self.end = log.high_watermark
            self.deleted_to = max(self.deleted_to, log.log_start_offset)
            for each in self.replicas.values():
                each.lacks_claimed = True
            self.change(leader.node_id, (leader.node_id,), new_term=True)
            self.trusted_from = self.epoch
        leader.lacks_claimed = False
        self.publish(leader)

    def shrink(self) -> None:
        leader = self.leading()
        others = [each for each in self.isr if each != self.leader]
        if leader is not None and others:
            gone = self.prng.choice(others)
            self.change(self.leader, tuple(n for n in self.isr if n != gone), new_term=False)
            self.publish(leader)

    # Records ----------------------------------------------------------------------------------

    def append(self) -> None:
        """Of a leader, deposed or not."""
        leaders = [each for each in self.running if each.partition.leadership is not None]
        if not leaders:
            return
        replica = self.prng.choice(leaders)
        for _ in range(self.prng.between(1, 3)):
            self.append_one(replica)

    def append_one(self, replica: Replica) -> None:
        log, prng, epoch = replica.log, self.prng, replica.partition.leader_epoch
        producer = prng.below(5)
        self.values += 1
        value = b"%d" % self.values + b"v" * prng.below(60)
        if producer == 4:
            log.append_as_leader(batch(prng.between(1, 4), value=value), epoch, WALL_MS)
            return
        if prng.chance(1, 8):
            self.epochs[producer] += 1
            self.sequences[producer] = 0
        entry = log.producers.by_id.get(producer)
        producer_epoch = (
            self.epochs[producer]
            if entry is None
            else max(self.epochs[producer], entry.producer_epoch)
        )
        transactional = producer < 2
        if (
            transactional
            and entry is not None
            and entry.txn_first_offset >= 0
            and prng.chance(1, 2)
        ):
            marker = EndTxnMarker(prng.chance(1, 2), 3)
            data = build_end_txn_marker(marker, producer, producer_epoch, WALL_MS)
            log.append_as_leader(data, epoch, WALL_MS, origin=AppendOrigin.COORDINATOR)
            return
        sequence = 0
        if entry is not None and entry.producer_epoch == producer_epoch and entry.batches:
            sequence = entry.batches[-1].last_sequence + 1
        data = batch(
            prng.between(1, 4), value=value, producer_id=producer, producer_epoch=producer_epoch,
            sequence=sequence, transactional=transactional,
        )  # fmt: skip
        log.append_as_leader(data, epoch, WALL_MS)

    def delete(self) -> None:
        """Records of the leader, up to the middle of a batch perhaps."""
        leader = self.leading()
        if leader is None or leader.partition.leadership is None:
            return
        log = leader.log
        if (
            log.high_watermark > log.log_start_offset
            and leader.partition.leader_epoch == self.epoch
        ):
            start = self.prng.between(log.log_start_offset, log.high_watermark)
            log.maybe_raise_log_start_offset(start)
            self.deleted_to = max(self.deleted_to, log.log_start_offset)

    def drop_segments(self) -> None:
        replica = self.some()
        if replica is None:
            return
        log = replica.log
        replica.directory.checkpoint_log_start_offsets()
        start = log.log_start_offset
        replica.carry_out()
        for base in log.set_segments_aside(start, 9):
            replica.directory.deleted_files.add(
                DeletedSegment(PARTITION, base, Instant(self.now + 20))
            )

    # Fetching ---------------------------------------------------------------------------------

    def exchange(self) -> None:
        """A replica sends what it wants to send, and answers that were on their way arrive."""
        replica = self.some()
        if replica is None:
            return
        replica.tick(self.now)
        for output in replica.env.outbox.take():
            if isinstance(output, SendFetch):
                self.on_fetch(replica, output)
            elif isinstance(output, SendListOffsets):
                self.on_list_offsets(replica, output)
        if replica.on_the_way and self.prng.chance(3, 4):
            replica.on_the_way.pop(0)(self.now)
        replica.effects_failed()
        replica.fetchers.check((replica.partition,))

    def on_fetch(self, replica: Replica, sent: SendFetch) -> None:
        request = sent.request
        if not request.session_epoch:
            replica.wanted = None
        for _ in request.forgotten:
            replica.wanted = None
        for want in request.partitions:
            replica.wanted = want
        parts = []
        leader = self.replicas[sent.leader_id]
        response: FetchResponse | None = None
        if leader.running and not self.prng.chance(1, 20):
            if replica.wanted is not None:
                parts.append(self.answer(leader, replica, replica.wanted))
            response = FetchResponse(0, ErrorCode.NONE, 9, parts)
        fetchers, token = replica.fetchers, sent.token

        def arrive(now: Instant) -> None:
            replica.env.work.left = 1000
            fetchers.on_fetch_response(token, response, now)

        replica.on_the_way.append(arrive)

    def answer(self, leader: Replica, replica: Replica, want: FetchPartition) -> FetchedPartition:
        """As `fetch_reading` does."""
        partition, log = leader.partition, leader.log

        def part(
            code: ErrorCode = ErrorCode.NONE,
            offsets: tuple[int, int, int] = (-1, -1, -1),
            data: bytes = b"",
            diverging: EpochEndOffset | None = None,
        ) -> FetchedPartition:
            return FetchedPartition(
                want.topic, want.topic_id, want.partition, code, *offsets,
                [data] if data else [], len(data), diverging,
            )  # fmt: skip

        code = partition.error_of_request(want.topic_id, want.current_leader_epoch)
        if code is not ErrorCode.NONE:
            return part(code)
        if partition.leadership is None:
            return part(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if want.last_fetched_epoch != NO_EPOCH:
            try:
                diverging = _divergence(log, want)
            except ProtocolError as error:
                return part(error.code)
            if diverging is not None:
                return part(ErrorCode.NONE, (-1, -1, log.log_start_offset), b"", diverging)
        if not log.log_start_offset <= want.fetch_offset <= log.log_end_offset:
            return part(ErrorCode.OFFSET_OUT_OF_RANGE)
        remote = partition.leadership.remotes[replica.node_id]
        remote.on_fetch(
            want.fetch_offset, want.log_start_offset, leader_end=log.log_end_offset,
            broker_epoch=1, now=self.now,
        )  # fmt: skip
        self.note_isr(leader, replica)
        self.advance(leader)
        found = log.read(
            want.fetch_offset, self.prng.choice((1, 200, 1000)), log.log_end_offset,
            at_least_one=True,
        )  # fmt: skip
        data = bytes(as_buffer(found.chunks)) if found.size_bytes else b""
        bounds = (log.high_watermark, log.last_stable_offset, log.log_start_offset)
        return part(ErrorCode.NONE, bounds, data)

    def note_isr(self, leader: Replica, replica: Replica) -> None:
        """The controller lets a replica join that may."""
        leadership = leader.partition.leadership
        assert leadership is not None
        if leader.node_id != self.leader or leader.partition.image is not self.image:
            return
        remote = leadership.remotes[replica.node_id]
        may_join = remote.log_end_offset >= leader.log.high_watermark
        may_join &= remote.log_end_offset >= leadership.epoch_start_offset
        if replica.node_id not in self.isr and may_join and replica.running:
            self.change(self.leader, (*self.isr, replica.node_id), new_term=False)
            replica.lacks_claimed = False
            self.publish(leader)

    def on_list_offsets(self, replica: Replica, sent: SendListOffsets) -> None:
        leader = self.replicas[sent.leader_id]
        results: list[ListOffsetsResult] | None = None
        if leader.running:
            results = []
            for query in sent.queries:
                partition = leader.partition
                code = partition.error_of_request(ZERO_TOPIC_ID, query.current_leader_epoch)
                if code is ErrorCode.NONE and partition.leadership is None:
                    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                earliest = query.timestamp == EARLIEST_TIMESTAMP
                offset = leader.log.log_start_offset if earliest else leader.log.log_end_offset
                results.append(ListOffsetsResult(query.topic, query.partition, code, -1, offset, 0))
        fetchers, token = replica.fetchers, sent.token
        replica.on_the_way.append(
            lambda now: fetchers.on_list_offsets_response(token, results, now)
        )

    def advance(self, leader: Replica) -> None:
        leadership = leader.partition.leadership
        if leadership is not None and leadership.maybe_advance_high_watermark(self.now):
            self.note_committed(leader)

    def note_committed(self, leader: Replica) -> None:
        """A leader shows records below its high watermark."""
        log = leader.log
        if leader.partition.leader_epoch < self.trusted_from:
            return
        for each in records_of(log, log.high_watermark):
            if each.offset < log.high_watermark:
                assert self.committed.setdefault(each.offset, each) == each
        self.end = max(self.end, log.high_watermark)

    # Everything -------------------------------------------------------------------------------

    def some(self) -> Replica | None:
        running = self.running
        return self.prng.choice(running) if running else None

    def step(self) -> None:
        once: tuple[Callable[[], None], ...] = (
            self.elect, self.shrink, self.delete, self.drop_segments, self.die, self.save,
            self.arm, self.flush,
        )  # fmt: skip
        often = (self.exchange,) * 24 + (self.append,) * 5 + (self.disks,) * 12
        more = (self.see,) * 6 + (self.begin,) * 3
        self.now = Instant(self.now + self.prng.choice((1, 5, 50)))
        action = self.prng.choice((*often, *more, *once))
        try:
            action()
            for replica in self.running:
                self.advance(replica)
        except ProcessKilled as killed:
            replica = self.replicas[killed.args[0]]
            self.end_of(replica, power_cut=self.power_cuts and self.prng.chance(1, 2))
        for replica in self.running:
            replica.log.check()
            if replica.partition.image is not None:
                replica.partition.check()

    def see(self) -> None:
        replica = self.some()
        if replica is not None:
            self.publish(replica)

    def disks(self) -> None:
        replica = self.some()
        if replica is not None:
            replica.carry_out(self.prng.choice((1, 2, 5, 100)))
            replica.directory.deleted_files.clear(self.now, 1)

    def flush(self) -> None:
        replica = self.some()
        if replica is not None:
            replica.log.request_flush()

    def save(self) -> None:
        replica = self.some()
        if replica is not None:
            directory = replica.directory
            self.prng.choice(
                (
                    directory.checkpoint_recovery_points,
                    directory.checkpoint_log_start_offsets,
                    directory.checkpoint_high_watermarks,
                    directory.checkpoint_high_watermarks,
                )
            )()

    def arm(self) -> None:
        """A process will die in the middle of something."""
        replica = self.some()
        if replica is None:
            return
        left = self.prng.between(1, 20)
        node = replica.node_id

        def witness(operation: Operation, path: str) -> None:
            nonlocal left
            if operation in (Operation.LOOK, Operation.READ):
                return
            left -= 1
            if left <= 0:
                replica.disk.witness = None
                raise ProcessKilled(node)

        replica.disk.witness = witness

    def die(self) -> None:
        replica = self.some()
        if replica is not None:
            if self.prng.chance(1, 2):
                replica.carry_out(self.prng.below(4))
            self.end_of(replica, power_cut=self.power_cuts and self.prng.chance(1, 2))

    def end_of(self, replica: Replica, *, power_cut: bool) -> None:
        """A process dies, or a machine. The controller notices."""
        replica.disk.witness = None
        replica.running = False
        if power_cut:
            replica.disk.crash(self.prng)
            if not self.group_commit:
                replica.lacks_claimed = True
        node = replica.node_id
        isr = tuple(each for each in self.isr if each != node) or self.isr
        if node == self.leader:
            self.change(-1, isr, new_term=True)
        elif isr != self.isr:
            self.change(self.leader, isr, new_term=False)
            leader = self.leading()
            if leader is not None and self.prng.chance(1, 2):
                self.publish(leader)

    def begin(self) -> None:
        down = [each for each in self.replicas.values() if not each.running]
        if down:
            replica = self.prng.choice(down)
            replica.start()
            replica.judge()
            if self.leading() is None and self.prng.chance(3, 4):
                self.elect()

    # The end ----------------------------------------------------------------------------------

    def calm(self) -> None:
        """Everything heals, and all replicas become equal."""
        self.power_cuts = False
        for replica in self.replicas.values():
            replica.disk.witness = None
            if not replica.running:
                replica.start()
        for turn in range(600):
            self.now = Instant(self.now + 50)
            if self.leading() is None or turn == 300:
                self.elect()
            for replica in self.running:
                self.publish(replica)
                replica.carry_out()
            self.exchange()
            for replica in self.running:
                self.advance(replica)
            if turn % 20 == 0 and self.is_level():
                break
        assert self.is_level(), f"{self.image} " + " ".join(
            f"{r.log.log_start_offset}..{r.log.high_watermark}..{r.log.log_end_offset}"
            for r in self.running
        )
        for replica in self.running:
            replica.judge()
        logs = [records_of(each.log) for each in self.running]
        start = max(each.log.log_start_offset for each in self.running)
        common = [[each for each in log if each.offset >= start] for log in logs]
        assert common[0] == common[1] == common[2]

    def is_level(self) -> bool:
        ends = {each.log.log_end_offset for each in self.running}
        ends |= {each.log.high_watermark for each in self.running}
        return len(ends) == 1 and set(self.isr) == set(NODES)


def run(seed: int) -> None:
    cluster = Cluster(seed)
    for _ in range(cluster.prng.between(60, 250)):
        cluster.step()
    cluster.calm()


@pytest.mark.parametrize("seed", range(40))
def test_what_is_committed_stays(seed: int) -> None:
    run(seed)
