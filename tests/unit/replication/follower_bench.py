"""One replica with its real log, role and fetchers; the test is the network and the controller."""

from collections.abc import Callable, Iterator

from tests.unit.log.harness import DIRECTORY_ID, PARTITION, TOPIC_ID, WALL_MS
from tidelog.config import LogConfig
from tidelog.env.effects import EffectQueue, Flush, Replace
from tidelog.env.instant import Instant
from tidelog.env.trace import Trace, TraceList
from tidelog.log.directories import LogDirectories
from tidelog.log.directory import LogDirectory
from tidelog.log.identity import format_directory
from tidelog.log.log import Log
from tidelog.log.producer_state import ProducerStates
from tidelog.log.replay import read_marker_or_none
from tidelog.log.values import LogFlush
from tidelog.model import ZERO_TOPIC_ID
from tidelog.records.batch import BatchHeader
from tidelog.replication.brokers import BrokerEpochs
from tidelog.replication.fetchers import Fetchers
from tidelog.replication.measures import Measures
from tidelog.replication.messages import TruncationsAnnounced
from tidelog.replication.partition import Partition
from tidelog.replication.shared import Env
from tidelog.replication.throttle import Throttles
from tidelog.replication.turn_work import TurnWork
from tidelog.sim.engine.disk import SimDisk
from tidelog.sim.replicas.cluster import CONFIG
from tidelog.wire.fetch import FetchPartition


class Replica:
    """A broker with the partition."""

    def __init__(self, node_id: int, config: LogConfig) -> None:
        self.node_id, self.config = node_id, config
        self.disk = SimDisk(f"disk{node_id}")
        format_directory(self.disk, cluster_id="c", node_id=node_id, directory_id=DIRECTORY_ID)
        # Whether it lacks records that it had claimed.
        self.lacks_claimed = False
        self.running = False
        self.start()

    def start(self) -> None:
        """A process opens the disk."""
        self.effects = EffectQueue()
        trace = Trace(TraceList())
        self.directory = LogDirectory.open(
            self.disk,
            effects=self.effects,
            trace=trace,
            default_config=self.config,
            wall_ms=WALL_MS,
        )
        assert not self.directory.damaged, f"{self.directory.damaged}"
        directories = LogDirectories.of_one(self.directory)
        work, measures = TurnWork(CONFIG.metadata_work_per_turn), Measures(trace)
        throttles = Throttles(self.node_id, CONFIG)
        self.env = Env(
            self.node_id, CONFIG, BrokerEpochs(), trace, directories, throttles, measures, work
        )
        self.fetchers = Fetchers(self.env)
        log = self.directory.logs.get(PARTITION)
        if log is None:
            log = self.directory.create(PARTITION, TOPIC_ID, self.config)
        if log.topic_id == ZERO_TOPIC_ID:
            log.assign_topic_id(TOPIC_ID)
        log.check()
        self.partition = Partition(log, self.env)
        self.env.hosted.partitions[PARTITION] = self.partition
        # What the leader remembers of the session, and answers on their way.
        self.wanted: FetchPartition | None = None
        self.on_the_way: list[Callable[[Instant], None]] = []
        self.running = True

    @property
    def log(self) -> Log:
        return self.partition.log

    def carry_out(self, most: int = 1000) -> None:
        """The disk does what it was asked for first."""
        effects = list(self.effects.take())
        for effect in effects[most:]:
            self.effects.emit(effect)
        for effect in effects[:most]:
            if isinstance(effect, Flush):
                self.disk.sync(effect.file)
            else:
                assert isinstance(effect, Replace)
                self.disk.replace(effect.path, effect.data)
            match effect.subject:
                case LogFlush():
                    self.log.on_flushed(effect.subject)
                    if effect.subject.completes:
                        self.partition.on_flushed()
                case TruncationsAnnounced():
                    self.env.work.left = 1000
                    self.fetchers.on_announced(effect.subject)
            self.effects_failed()

    def effects_failed(self) -> None:
        assert not self.env.changed.failed, f"{self.env.changed.failed}"

    def tick(self, now: Instant) -> None:
        self.env.changed.take()
        for partition in self.env.changed.take_unflushed():
            partition.maybe_request_flush()
        if self.log.config.flush_messages == 1:
            self.partition.maybe_request_flush()
        self.fetchers.apply_rest(now)
        self.fetchers.poll(now)
        self.effects_failed()

    def batches(self) -> Iterator[tuple[BatchHeader, bytes]]:
        for segment in self.log.segments:
            for found in segment.batches.scan():
                yield found.header, found.data

    def judge(self) -> None:
        """Reads everything, and compares what was derived from it."""
        log = self.log
        log.tail.clear()
        log.verify()
        fresh = ProducerStates()
        fresh.clear(0)
        aborted = []
        ends = {}
        for header, data in self.batches():
            known = log.epoch_at(header.last_offset)
            if header.last_offset >= log.log_start_offset:
                assert known == header.leader_epoch, f"{known} {header}"
            marker = read_marker_or_none(data, header)
            found = fresh.replay(header, header.base_offset, header.max_timestamp, marker)
            if found is not None:
                aborted.append(found)
            if header.producer_id >= 0 and not header.is_control:
                ends[header.producer_id] = header.last_offset
        for producer, end in ends.items():
            if end < log.log_start_offset:
                continue
            ours, right = log.producers.by_id[producer], fresh.by_id[producer]
            assert ours.producer_epoch == right.producer_epoch
            assert not ours.batches or ours.batches[-1][:2] == right.batches[-1][:2], (
                f"{ours} {right}"
            )
            is_open = right.txn_first_offset >= log.log_start_offset
            if is_open and ours.txn_first_offset >= log.segments.first_base_offset:
                assert ours.txn_first_offset == right.txn_first_offset, f"{ours} {right}"
            if right.txn_first_offset < 0:
                assert ours.txn_first_offset < 0, f"{ours} {right}"
        start = log.log_start_offset
        shown = {
            (e.producer_id, e.last_offset): e for x in log.segments for e in x.txn_index.entries
        }
        for each in aborted:
            if each.first_offset >= start:
                ours = shown.get((each.producer_id, each.last_offset))
                assert ours is not None and ours.first_offset <= each.first_offset, (
                    f"{each} {shown}"
                )
