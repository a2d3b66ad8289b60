"""A leader on a node with three log directories, the driver of its disks, and the controller that
takes its reports over when the test says so."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.unit.log.harness import PARTITION, TOPIC_ID, WALL_MS, batch
from tidelog.config import LogConfig
from tidelog.env.effects import EffectQueue, EffectsOfDisk, Flush, OnDisk, Replace
from tidelog.env.instant import Instant
from tidelog.env.memory_disk import Operation
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace, TraceList
from tidelog.log.cleaning.choosing import cleanable_part
from tidelog.log.cleaning.offset_map import OffsetMap
from tidelog.log.cleaning.round import CleaningRound
from tidelog.log.cleaning.swap import CleanedFlush
from tidelog.log.directories import LogDirectories
from tidelog.log.directory import LogDirectory
from tidelog.log.identity import format_directory
from tidelog.log.log import Log
from tidelog.log.partition_directories import RenamesForgotten
from tidelog.log.pieces import finish
from tidelog.log.values import LogFlush
from tidelog.metadata.image import PartitionImage
from tidelog.model import Uuid
from tidelog.replication.brokers import BrokerEpochs
from tidelog.replication.directory_reports import DirectoryReports
from tidelog.replication.measures import Measures
from tidelog.replication.messages import SendAssignReplicas
from tidelog.replication.moves import MoveFlush, ReplicaMoves
from tidelog.replication.partition import Partition
from tidelog.replication.shared import Env
from tidelog.replication.throttle import Throttles
from tidelog.replication.turn_work import TurnWork
from tidelog.sim.engine.disk import SimDisk
from tidelog.sim.replicas.cluster import CONFIG
from tidelog.sim.replicas.reading import Written, records_of

IDS = [Uuid(letter * 16) for letter in (b"a", b"b", b"c")]


class MoveBench:
    """Broker 1, whose one replica begins on disk 1."""

    def __init__(self, config: LogConfig | None = None, disks: list[Any] | None = None) -> None:
        self.config = config or LogConfig(segment_bytes=1000)
        self.disks: list[SimDisk] = disks or [SimDisk(root=f"disk{n}") for n in range(3)]
        for number, disk in enumerate(self.disks):
            format_directory(disk, cluster_id="c", node_id=1, directory_id=IDS[number])
        # Where the metadata has the replica.
        self.said = IDS[1]
        # Whether the controller takes reports over.
        self.obeys = True
        self.now = Instant(0)
        self.epoch = 0
        # Disks that do not get to what they are asked for.
        self.hanging: set[int] = set()
        # The round of cleaning under way.
        self.round: CleaningRound | None = None
        self.open()
        self.env.directories.create(PARTITION, TOPIC_ID, self.config, IDS[1])
        self.host()

    def open(self, offline: tuple[int, ...] = ()) -> None:
        """A process on these disks."""
        self.effects, self.trace = EffectQueue(), TraceList()
        trace = Trace(self.trace)
        online = {
            number: LogDirectory.open(
                disk,
                effects=EffectsOfDisk(self.effects, number) if number else self.effects,
                trace=trace,
                default_config=self.config,
                wall_ms=WALL_MS,
            )
            for number, disk in enumerate(self.disks)
            if number not in offline
        }
        directories = LogDirectories(online, {})
        throttles, work = Throttles(1, CONFIG), TurnWork(CONFIG.metadata_work_per_turn)
        measures, brokers = Measures(trace), BrokerEpochs()
        self.env = Env(1, CONFIG, brokers, trace, directories, throttles, measures, work)
        self.reports = DirectoryReports(self.env)
        self.moves = ReplicaMoves(self.env, self.reports, lambda: None)

    def host(self) -> None:
        """The replica leads from whichever log there is."""
        self.env.directories.settle(PARTITION, TOPIC_ID, self.said)
        log = self.env.directories.logs[PARTITION]
        log.reconfigure(self.config)
        self.partition = Partition(log, self.env)
        self.env.hosted.partitions[PARTITION] = self.partition
        self.follow_metadata()

    def follow_metadata(self) -> None:
        """The image with the present place of the replica."""
        image = PartitionImage((1,), (1,), 1, self.epoch, self.epoch, directories=(self.said,))
        self.reports.on_metadata(PARTITION, TOPIC_ID, self.said)
        self.reports.compare(PARTITION, TOPIC_ID, image)
        self.partition.become_leader(image, self.now)

    @property
    def log(self) -> Log:
        return self.partition.log

    @property
    def place(self) -> int:
        """The disk that the log in service is on."""
        directory = self.env.directories.of(PARTITION)
        assert directory is not None
        return IDS.index(directory.directory_id)

    @property
    def records(self) -> list[Written]:
        # What is in memory is the former log's.
        self.log.tail.clear()
        return records_of(self.log)

    def append(self, times: int = 1) -> None:
        """Committed records of the leader."""
        for _ in range(times):
            value = b"%d" % self.log.log_end_offset + b"v" * 100
            self.log.append_as_leader(batch(value=value), self.epoch, WALL_MS)
        self.log.update_high_watermark(self.log.log_end_offset)

    def begin_term(self) -> None:
        """The replica leads anew, in the next epoch."""
        self.epoch += 1
        self.follow_metadata()

    def request(self, number: int) -> int:
        """An administrator wants the replica on this disk."""
        return self.moves.request(PARTITION, self.disks[number].root, self.now)

    def tick(self) -> None:
        """One tick; what it asks for is still to be done."""
        self.moves.on_changed({self.partition: None}, self.now)
        self.work()

    def work(self) -> None:
        """One tick in which nothing of the replica has changed."""
        self.now = Instant(self.now + 1)
        self.moves.work(self.now)
        self.moves.check()
        finish(self.env.directories.forget_renamed())

    def turn(self) -> None:
        """One tick, and all that it asked for."""
        self.tick()
        self.carry_out()
        self.env.directories.clear_renamed(4)
        self.reports.maybe_send(self.now)
        for output in self.env.outbox.take():
            if isinstance(output, SendAssignReplicas):
                if self.obeys:
                    (self.said,) = (each.directory_id for each in output.assignments)
                    self.begin_term()
                self.reports.on_response(output.token, None, self.now)
        for directory in self.env.directories.online.values():
            directory.check()

    def turns(self, count: int = 400) -> None:
        for _ in range(count):
            self.turn()

    def ends_on(self, number: int) -> bool:
        """Whether the replica comes to this disk, and leaves nothing on the others."""
        for _ in range(150):
            others = [self.names(each) for each in range(3) if each != number]
            if self.place == number and not any(others):
                return True
            self.turn()
        return False

    def carry_out(self) -> None:
        """What a driver does."""
        for effect in self.effects.take():
            number, work = (effect.disk, effect.work) if isinstance(effect, OnDisk) else (0, effect)
            assert isinstance(work, Flush | Replace)
            if number in self.hanging:
                continue
            if isinstance(work, Flush):
                self.disks[number].sync(work.file)
            elif self.disks[number].exists(work.path.rpartition("/")[0]):
                self.disks[number].replace(work.path, work.data)
            self.answer(work.subject)

    def answer(self, subject: object) -> None:
        """What was asked for with this subject is done."""
        logs = self.env.directories.logs
        match subject:
            case RenamesForgotten():
                self.env.directories.on_renames_forgotten(subject)
            case CleanedFlush() if self.round is not None:
                self.round.on_flushed(subject)
            case MoveFlush() | LogFlush(is_future=True):
                self.moves.on_flushed(subject, self.now)
            case LogFlush() if subject.topic_partition in logs:
                logs[subject.topic_partition].on_flushed(subject)

    def clean(self) -> None:
        """Compacts the log in service."""
        part = cleanable_part(self.log, WALL_MS)
        assert part is not None
        self.round = CleaningRound(
            self.log,
            part,
            OffsetMap(20_000, 1.0),
            number=1,
            wall_ms=WALL_MS,
            buffer_bytes=1000,
            put_aside=lambda _: None,
        )
        while not self.round.is_over:
            self.round.step(100)
            self.carry_out()
        self.env.directories.checkpoint_cleaned()
        self.carry_out()

    def restart(self, prng: Prng | None = None, *, power_cut: bool = False) -> None:
        """The process dies, and perhaps the machine; another one opens the disks."""
        for disk in self.disks:
            if power_cut:
                disk.crash(prng)
        self.open()
        self.begin_process()

    def begin_process(self) -> None:
        """The replica leads again, in the next epoch."""
        self.epoch += 1
        self.host()

    def watch(self, witness: Callable[[Operation, str], None] | None) -> None:
        """Who sees what is done to the disks."""
        for disk in self.disks:
            disk.witness = witness

    def names(self, number: int) -> list[str]:
        """The directories of the partition on a disk."""
        return [name for name in self.disks[number].list_dir() if name.startswith(str(PARTITION))]

    def configure(self, **changes: object) -> None:
        self.config = replace(self.config, **changes)  # type: ignore[arg-type]
        self.log.reconfigure(self.config)
