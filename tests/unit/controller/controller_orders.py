"""A controller, its log in memory, and brokers that act on the metadata that they have seen.

A broker here is what the controller's decisions are for: it leads with the high watermark of the
product's leaders, follows, proposes, dies with or without its last records, loses disks and logs.
Requests travel in any order, some of them twice. A seed is one order of all that.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.unit.controller.harness import CLUSTER_ID, CONFIG, FEATURES, NODE_ID
from tests.unit.rsm.memory_log import MemoryLog
from tidelog.controller import messages
from tidelog.controller.bootstrap import BOOTSTRAP_FEATURES, FirstRecords
from tidelog.controller.controller import Controller
from tidelog.controller.topic_messages import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    MorePartitions,
    NewTopic,
    TopicRef,
)
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace, TraceList
from tidelog.errors import ErrorCode
from tidelog.metadata.image import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    EMPTY_IMAGE,
    MetadataImage,
    PartitionImage,
)
from tidelog.model import LOST_DIRECTORY, NO_LEADER, ZERO_UUID, Endpoint, TopicId, Uuid

BROKERS = (1, 2, 3, 4)
MIN_ISR = "min.insync.replicas"
LOSSY = 2
"""The one broker that may lose its last records: P3 with a min ISR of 2."""
STAYS_PENDING = (
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)

Key = tuple[TopicId, int]


class Leadership:
    """What a leader knows."""

    def __init__(self, partition: PartitionImage, end: int) -> None:
        self.epoch = partition.leader_epoch
        self.partition_epoch = partition.partition_epoch
        self.isr = partition.isr
        self.departing: tuple[int, ...] = ()
        self.proposal: messages.IsrProposal | None = None
        self.start = end
        self.mark = 0
        # Of followers: (end, broker epoch).
        self.ends: dict[int, tuple[int, int]] = {}

    @property
    def maximal_isr(self) -> set[int]:
        proposed = () if self.proposal is None else self.proposal.new_isr
        return {*self.isr, *self.departing, *(member.broker_id for member in proposed)}


class Message(NamedTuple):
    """A request on its way."""

    request: Any
    on_answer: Callable[[Any], None]


class Process:
    """One life of a broker."""

    def __init__(self, marker: int, directories: tuple[Uuid, ...], incarnation: Uuid) -> None:
        self.marker = marker
        self.incarnation = incarnation
        self.directories = directories
        self.offline: tuple[Uuid, ...] = ()
        self.epoch = -1
        self.calls = False
        self.registered = False
        self.stopping = False
        self.leads: dict[Key, Leadership] = {}
        self.reports: dict[Key, Uuid] = {}
        self.reporting = False


class Orders:
    """The world."""

    def __init__(self, seed: int) -> None:
        self.prng = Prng(seed)
        self.log = MemoryLog()
        self.now = Instant(10_000)
        self.quorum_epoch = 0
        self.committed_end = 0
        self.elr = not self.prng.chance(1, 4)
        self.allows_unclean = self.prng.chance(1, 6)
        self.lowest_min_isr = self.prng.between(1, 2)
        self.has_disk_faults = self.prng.chance(1, 2)
        self.has_damage = self.prng.chance(1, 3)
        self.controller = self.new_controller()
        self.images: list[MetadataImage] = [EMPTY_IMAGE]
        self.seen: dict[int, MetadataImage] = dict.fromkeys(BROKERS, EMPTY_IMAGE)
        self.processes: dict[int, Process | None] = dict.fromkeys(BROKERS)
        self.markers = dict.fromkeys(BROKERS, -1)
        # What each disk has: the records of a replica, and where.
        self.logs: dict[int, dict[Key, list[int]]] = {broker: {} for broker in BROKERS}
        self.places: dict[int, dict[Key, Uuid]] = {broker: {} for broker in BROKERS}
        self.lost: dict[int, set[Key]] = {broker: set() for broker in BROKERS}
        self.disks: dict[int, tuple[Uuid, ...]] = {
            broker: (self.disk(broker, 0), self.disk(broker, 1)) for broker in BROKERS
        }
        self.acknowledged: dict[Key, list[int]] = {}
        self.wire: list[Message] = []
        self.late: list[Message] = []
        self.waiting: dict[int, Message] = {}
        self.count = 0
        self.trail: list[str] = []
        # The last leader that was elected uncleanly, and its epoch.
        self.unclean: dict[Key, tuple[int, int]] = {}
        self.elect()
        for broker in BROKERS:
            self.start(broker)
        for _ in range(12):
            self.go_on()
        self.ask(CreateTopics((self.new_topic("t0"),)))

    @staticmethod
    def disk(broker: int, number: int) -> Uuid:
        return Uuid(b"d" * 14 + bytes((number + 1, broker)))

    def new_controller(self) -> Controller:
        controller = Controller(
            node_id=NODE_ID,
            cluster_id=CLUSTER_ID,
            config=CONFIG,
            log=self.log,
            prng=Prng(self.prng.below(1 << 30)),
            trace=Trace(TraceList()),
        )
        if not self.elr:
            levels = dict(BOOTSTRAP_FEATURES)
            del levels[ELIGIBLE_LEADER_REPLICAS_VERSION]
            controller.first = FirstRecords(levels)
        return controller

    def number(self) -> int:
        self.count += 1
        return self.count

    @property
    def image(self) -> MetadataImage:
        return self.images[-1]

    # The quorum ----------------------------------------------------------------------------

    def elect(self) -> None:
        self.quorum_epoch += 1
        start = self.log.lead(self.quorum_epoch)
        self.controller.on_leader_change(NODE_ID, self.quorum_epoch, start, self.now)

    def fail_over(self) -> None:
        """Another node becomes the controller, maybe with some of what was not committed."""
        kept = self.prng.below(4)
        self.log.lose(kept)
        self.quorum_epoch += 1
        self.controller.on_leader_change(NODE_ID + 1, self.quorum_epoch, -1, self.now)
        self.collect()
        self.commit(1000)
        if self.prng.chance(1, 2):
            self.controller = self.new_controller()
            self.controller.on_image(self.image, self.now)
        self.elect()

    def commit(self, most: int) -> None:
        while most > 0 and self.committed_end < self.log.end_offset:
            most -= 1
            (batch,) = self.log.commit(1)
            self.committed_end = batch.last_offset + 1
            self.controller.on_committed(batch, self.now)
            if self.controller.image is not self.image:
                self.images.append(self.controller.image)
            self.collect()

    def collect(self) -> None:
        self.controller.check()
        for reply in self.controller.take_outputs():
            assert isinstance(reply.reply_to, int)
            message = self.waiting.pop(reply.reply_to)
            message.on_answer(reply.response)

    def go_on(self) -> None:
        """Everything is delivered, decided, committed and seen, once."""
        for _ in range(len(self.wire)):
            self.deliver(0)
        self.controller.wake(self.now)
        self.commit(1000)
        for broker in BROKERS:
            self.see(broker, newest=True)
            self.call(broker)

    # Requests ------------------------------------------------------------------------------

    def ask(self, request: Any, on_answer: Callable[[Any], None] = lambda _: None) -> None:
        self.wire.append(Message(request, on_answer))

    def deliver(self, index: int | None = None) -> None:
        if self.late and self.prng.chance(1, 30):
            self.wire.append(self.late.pop(self.prng.below(len(self.late))))
            index = None
        if not self.wire:
            return
        index = self.prng.below(len(self.wire)) if index is None else index
        message = self.wire.pop(index)
        if self.prng.chance(1, 25) and not isinstance(message.request, messages.RegisterBroker):
            # It arrives once more, later.
            self.late.append(Message(message.request, lambda _: None))
        if self.prng.chance(1, 20):
            # The answer is lost, and the request with it or not.
            message.on_answer(None)
            if self.prng.chance(1, 2) or isinstance(message.request, messages.RegisterBroker):
                return
            message = Message(message.request, lambda _: None)
        token = self.number()
        self.waiting[token] = message
        self.trail.append(f"{self.now} {message.request}")
        self.controller.handle(message.request, token, self.now)
        self.collect()

    # The life of brokers ---------------------------------------------------------------------

    def start(self, broker: int) -> None:
        if self.processes[broker] is None:
            incarnation = Uuid(self.number().to_bytes(16, "big"))
            marker, self.markers[broker] = self.markers[broker], -1
            process = Process(marker, self.disks[broker], incarnation)
            self.processes[broker] = process
            self.seen[broker] = EMPTY_IMAGE
            self.trail.append(f"{self.now} start {broker}")

    def die(self, broker: int) -> None:
        if self.processes[broker] is None:
            return
        self.processes[broker] = None
        may_lose = self.elr and self.lowest_min_isr > 1
        is_lossy = broker == LOSSY and may_lose and self.prng.chance(1, 2)
        if is_lossy:
            for records in self.logs[broker].values():
                del records[self.prng.between(0, len(records)) :]
        self.trail.append(f"{self.now} die {broker} lossy={is_lossy}")

    def stop(self, broker: int) -> None:
        process = self.processes[broker]
        if process is not None and process.registered:
            process.stopping = True

    def call(self, broker: int) -> None:
        """Registration, heartbeat, proposals and reports, where none is under way."""
        process = self.processes[broker]
        if process is None:
            return
        if not process.calls:
            process.calls = True
            if process.registered:
                self.heartbeat(broker, process)
            else:
                self.register(broker, process)
        self.report(broker, process)

    def register(self, broker: int, process: Process) -> None:
        request = messages.RegisterBroker(
            broker_id=broker,
            cluster_id=CLUSTER_ID,
            incarnation_id=process.incarnation,
            endpoints=(Endpoint("PLAINTEXT", f"b{broker}", 9092),),
            rack=None,
            features=FEATURES,
            log_dirs=process.directories,
            previous_broker_epoch=process.marker,
        )

        def on_answer(answer: Any) -> None:
            process.calls = False
            if isinstance(answer, messages.RegisterBrokerResult):
                process.epoch, process.registered = answer.broker_epoch, True

        self.ask(request, on_answer)

    def heartbeat(self, broker: int, process: Process) -> None:
        seen = self.seen[broker].offset
        fences = seen < process.epoch
        request = messages.BrokerHeartbeat(
            broker, process.epoch, seen, fences, process.stopping, process.offline
        )

        def on_answer(answer: Any) -> None:
            process.calls = is_over = False
            if isinstance(answer, messages.Refused):
                if answer.error_code is ErrorCode.STALE_BROKER_EPOCH:
                    process.registered, is_over = False, True
            elif isinstance(answer, messages.BrokerHeartbeatResult):
                is_over = answer.should_shut_down
            if is_over and process.stopping:
                self.end(broker, process)

        self.ask(request, on_answer)

    def end(self, broker: int, process: Process) -> None:
        if self.processes[broker] is process:
            self.processes[broker] = None
            self.markers[broker] = process.epoch
            self.trail.append(f"{self.now} stopped {broker}")

    def report(self, broker: int, process: Process) -> None:
        if process.reporting or not process.reports or not process.registered:
            return
        process.reporting = True
        rows = [messages.ReplicaDirectory(*key, where) for key, where in process.reports.items()]

        def on_answer(_: Any) -> None:
            process.reporting = False

        self.ask(messages.AssignReplicas(broker, process.epoch, tuple(rows)), on_answer)

    # Following the metadata ------------------------------------------------------------------

    def see(self, broker: int, *, newest: bool = False) -> None:
        """The broker applies newer metadata."""
        process = self.processes[broker]
        if process is None:
            return
        position = self.images.index(self.seen[broker])
        position = (
            len(self.images) - 1 if newest else self.prng.between(position, len(self.images) - 1)
        )
        image = self.seen[broker] = self.images[position]
        mine = image.brokers.get(broker)
        if mine is None or mine.broker_epoch != process.epoch:
            # What it leads it leads by the metadata of its own life only.
            process.leads.clear()
            return
        held: set[Key] = set()
        for topic_id, topic in image.topics_by_id.items():
            for number, partition in topic.partitions.items():
                if broker in partition.replicas:
                    held.add((topic_id, number))
                    self.follow(broker, process, (topic_id, number), partition)
        for key in [key for key in self.logs[broker] if key not in held]:
            del self.logs[broker][key], self.places[broker][key]
            process.leads.pop(key, None)
            process.reports.pop(key, None)
            self.lost[broker].discard(key)

    def follow(self, broker: int, process: Process, key: Key, partition: PartitionImage) -> None:
        said = partition.directory_of(broker)
        if process.reports.get(key) == said:
            del process.reports[key]
        logs, places = self.logs[broker], self.places[broker]
        is_new = key not in logs
        others_lead = partition.leader not in (NO_LEADER, broker)
        if not is_new and places[key] not in process.directories:
            registered = self.seen[broker].brokers[broker].log_dirs
            if not others_lead or places[key] in registered or not process.directories:
                process.leads.pop(key, None)
                return
            is_new, said = True, ZERO_UUID
        if is_new:
            if said != ZERO_UUID and said not in process.directories:
                return
            logs[key] = []
            places[key] = self.prng.choice(process.directories) if said == ZERO_UUID else said
        if key in self.lost[broker]:
            process.leads.pop(key, None)
            if said == LOST_DIRECTORY and others_lead:
                del logs[key][self.prng.between(0, len(logs[key])) :]
                self.lost[broker].discard(key)
            else:
                process.reports[key] = LOST_DIRECTORY
                return
        if said != places[key]:
            process.reports[key] = places[key]
        if partition.leader != broker:
            process.leads.pop(key, None)
            return
        known = process.leads.get(key)
        if known is None or known.epoch != partition.leader_epoch:
            process.leads[key] = Leadership(partition, len(logs[key]))
        elif partition.partition_epoch >= known.partition_epoch:
            if partition.partition_epoch > known.partition_epoch:
                known.proposal = None
            known.partition_epoch, known.departing = partition.partition_epoch, ()
            if known.proposal is None:
                known.isr = partition.isr

    # Replication -----------------------------------------------------------------------------

    def leaders(self) -> list[tuple[int, Process, Key, Leadership]]:
        return [
            (broker, process, key, leadership)
            for broker, process in self.processes.items()
            if process is not None
            for key, leadership in process.leads.items()
        ]

    def write(self) -> None:
        if found := self.leaders():
            broker, _, key, _ = self.prng.choice(found)
            self.logs[broker][key] += [self.number() for _ in range(self.prng.between(1, 3))]
            self.advance()

    def fetch(self) -> None:
        found = self.leaders()
        if not found:
            return
        leader, _, key, leadership = self.prng.choice(found)
        partition = self.seen[leader].partition(*key)
        assert partition is not None
        if self.prng.chance(1, 3):
            self.fetch_of(leader, key, leadership, self.prng.choice(partition.replicas))
            return
        for follower in partition.replicas:
            self.fetch_of(leader, key, leadership, follower)

    def fetch_of(self, leader: int, key: Key, leadership: Leadership, follower: int) -> None:
        process = self.processes[follower]
        if follower == leader or process is None or not process.registered:
            return
        theirs = self.seen[follower].partition(*key)
        mine = self.seen[follower].brokers.get(follower)
        if theirs is None or theirs.leader_epoch != leadership.epoch or theirs.leader != leader:
            return
        if mine is None or mine.broker_epoch != process.epoch or key not in self.logs[follower]:
            return
        if key in self.lost[follower] or self.places[follower][key] not in process.directories:
            return
        records, copy = self.logs[leader][key], self.logs[follower][key]
        common = common_length(records, copy)
        del copy[common:]
        leadership.ends[follower] = (len(copy), process.epoch)
        self.advance()
        copy += records[common : common + self.prng.below(5)]

    def advance(self) -> None:
        """Leaders acknowledge what all that count have."""
        for broker, _, key, leadership in self.leaders():
            if leadership.epoch < self.unclean.get(key, (0, 0))[1]:
                # Another leads by an unclean election: what this one acknowledges is given up.
                continue
            image = self.seen[broker]
            partition, topic = image.partition(*key), image.topics_by_id[key[0]]
            assert partition is not None
            own, common = image.topic_configs(topic.name), image.broker_configs(None)
            text = own.get(MIN_ISR) or common.get(MIN_ISR) or CONFIG.min_insync_replicas
            min_isr = min(int(text), len(partition.replicas))
            if len(leadership.isr) < min_isr:
                continue
            records = self.logs[broker][key]
            ends = [
                leadership.ends.get(member, (0, 0))[0]
                for member in leadership.maximal_isr
                if member != broker
            ]
            mark = min([len(records), *ends])
            leadership.mark = max(leadership.mark, mark)
            known = self.acknowledged.setdefault(key, [])
            if mark > len(known):
                assert records[: len(known)] == known, f"{key} {broker}: {records} {known}"
                self.acknowledged[key] = records[:mark]

    def propose(self) -> None:
        found = self.leaders()
        if not found:
            return
        broker, process, key, leadership = self.prng.choice(found)
        partition = self.seen[broker].partition(*key)
        assert partition is not None
        if leadership.proposal is not None:
            return
        image = self.seen[broker]
        may_join = [
            replica
            for replica, (end, _) in leadership.ends.items()
            if replica not in leadership.isr
            and replica in partition.replicas
            and end >= max(leadership.mark, leadership.start)
            and image.is_active(replica)
        ]
        members = [member for member in leadership.isr if member != broker]
        if may_join and self.prng.chance(3, 4):
            isr = (*leadership.isr, self.prng.choice(may_join))
        elif members and self.prng.chance(1, 3):
            gone = self.prng.choice(members)
            isr = tuple(member for member in leadership.isr if member != gone)
        elif partition.recovering:
            isr = leadership.isr
        else:
            return
        epochs = {follower: epoch for follower, (_, epoch) in leadership.ends.items()}
        epochs[broker] = process.epoch
        leadership.proposal = messages.IsrProposal(
            *key,
            leadership.epoch,
            leadership.partition_epoch,
            tuple(messages.IsrMember(member, epochs.get(member, -1)) for member in isr),
        )
        self.send_proposal(broker, process, key, leadership)

    def send_proposal(
        self, broker: int, process: Process, key: Key, leadership: Leadership
    ) -> None:
        proposal = leadership.proposal
        assert proposal is not None

        def on_answer(answer: Any) -> None:
            if self.processes[broker] is not process or process.leads.get(key) is not leadership:
                return
            if leadership.proposal is not proposal:
                return
            if not isinstance(answer, messages.AlterPartitionResult):
                self.send_proposal(broker, process, key, leadership)
                return
            result = answer.results[0]
            if result.error_code is ErrorCode.NONE:
                if (
                    result.leader_epoch != leadership.epoch
                    or result.partition_epoch < leadership.partition_epoch
                ):
                    return
                before = leadership.maximal_isr
                seen = self.seen[broker].partition(*key)
                leadership.proposal, leadership.isr = None, result.isr
                leadership.partition_epoch = result.partition_epoch
                if seen is None or seen.partition_epoch < result.partition_epoch:
                    leadership.departing = tuple(before - set(result.isr))
            elif result.error_code is ErrorCode.INELIGIBLE_REPLICA:
                leadership.proposal = None
            elif result.error_code not in STAYS_PENDING:
                self.send_proposal(broker, process, key, leadership)

        self.ask(messages.AlterPartition(broker, process.epoch, (proposal,)), on_answer)

    # Disks -----------------------------------------------------------------------------------

    def fail_disk(self) -> None:
        broker = self.prng.choice(BROKERS)
        process = self.processes[broker]
        if not self.has_disk_faults or process is None or len(process.directories) < 2:
            return
        failed = self.prng.choice(process.directories)
        process.directories = tuple(each for each in process.directories if each != failed)
        process.offline += (failed,)
        self.trail.append(f"{self.now} disk fails {broker} {failed.hex()}")

    def move(self) -> None:
        """A log is in another directory now, with all it has."""
        broker = self.prng.choice(BROKERS)
        process = self.processes[broker]
        if process is None or not process.directories or not self.places[broker]:
            return
        key = self.prng.choice(list(self.places[broker]))
        if self.places[broker][key] in process.directories and key not in self.lost[broker]:
            self.places[broker][key] = self.prng.choice(process.directories)
            process.reports[key] = self.places[broker][key]

    def damage(self) -> None:
        """A broker finds one of its logs damaged."""
        broker = self.prng.choice(BROKERS)
        process = self.processes[broker]
        if not self.has_damage or process is None or not self.logs[broker]:
            return
        key = self.prng.choice(list(self.logs[broker]))
        self.lost[broker].add(key)
        process.leads.pop(key, None)
        process.reports[key] = LOST_DIRECTORY
        self.trail.append(f"{self.now} damage {broker} {key[0].hex()[:8]}-{key[1]}")

    # Operators -------------------------------------------------------------------------------

    def some_replicas(self) -> tuple[int, ...]:
        brokers = list(BROKERS)
        self.prng.shuffle(brokers)
        return tuple(brokers[: self.prng.between(1, 3)])

    def new_topic(self, name: str) -> NewTopic:
        return NewTopic(name, 2, 3)

    def administer(self) -> None:
        draw, image = self.prng.below(60), self.image
        names = sorted(image.topics_by_name)
        if draw in (0, 2):
            self.ask(CreateTopics((self.new_topic(f"t{self.prng.below(4)}"),)))
        elif draw == 1 and names:
            self.ask(messages.UnregisterBroker(self.prng.choice(BROKERS)))
        elif names:
            self.change(draw, self.prng.choice(names))
        else:
            self.ask(CreateTopics((self.new_topic("t0"),)))

    def change(self, draw: int, name: str) -> None:
        topic = self.image.topics_by_name[name]
        number = self.prng.below(len(topic.partitions))
        if draw < 25:
            wish = None if self.prng.chance(1, 4) else self.some_replicas()
            self.ask(messages.AlterReassignments((messages.Reassignment(name, number, wish),)))
        elif draw == 25:
            self.ask(DeleteTopics((TopicRef(name),)))
        elif draw == 26:
            self.ask(CreatePartitions((MorePartitions(name, len(topic.partitions) + 1),)))
        elif draw < 35:
            self.change_min_isr(name)
        elif draw < 40 and self.allows_unclean:
            value = self.prng.choice(("true", "false"))
            self.configure(self.config(2, name, "unclean.leader.election.enable", value))
        elif draw < 56:
            kind = 1 if self.allows_unclean and self.prng.chance(1, 4) else 0
            self.ask(messages.ElectLeaders(kind, None))
        else:
            self.ask(messages.AllocateProducerIds(1, 1))

    def change_min_isr(self, name: str) -> None:
        """Of a topic, of the cluster, or both."""
        values = (None, *map(str, range(self.lowest_min_isr, 4)))
        changes = [
            self.config(2, name, MIN_ISR, self.prng.choice(values)),
            self.config(4, "", MIN_ISR, self.prng.choice(values[1:])),
        ]
        self.prng.shuffle(changes)
        self.configure(*changes[: self.prng.between(1, 2)])

    @staticmethod
    def config(kind: int, name: str, key: str, value: str | None) -> messages.ConfigResourceChange:
        operation = messages.ConfigOperation.DELETE if value is None else 0
        change = messages.ConfigChange(key, operation, value)
        return messages.ConfigResourceChange(kind, name, (change,))

    def configure(self, *resources: messages.ConfigResourceChange) -> None:
        self.ask(messages.IncrementalAlterConfigs(resources))

    # Time --------------------------------------------------------------------------------------

    def wait(self) -> None:
        self.now = Instant(self.now + self.prng.choice((1, 50, 500, 2000, 4000)))
        self.tick()

    def tick(self) -> None:
        self.controller.wake(self.now)
        self.collect()

    @property
    def events(self) -> tuple[tuple[int, Callable[[int], object]], ...]:
        """How often what happens, to some broker."""
        return (
            (60, lambda _: self.deliver()),
            (30, lambda _: self.commit(self.prng.between(1, 6))),
            (40, lambda broker: self.see(broker, newest=self.prng.chance(2, 3))),
            (30, self.call),
            (25, lambda _: self.tick()),
            (20, lambda _: self.write()),
            (50, lambda _: self.fetch()),
            (30, lambda _: self.propose()),
            (5, lambda _: self.administer()),
            (2, lambda _: self.wait()),
            (2, self.die),
            (2, self.stop),
            (6, self.start),
            (1, lambda _: self.fail_over()),
            (1, lambda _: self.fail_disk()),
            (1, lambda _: self.damage()),
            (1, lambda _: self.move()),
            (1, lambda broker: self.controller.on_broker_suspected(broker, self.now)),
            (4, lambda _: self.go_on()),
        )

    def step(self) -> None:
        """Something happens."""
        broker = self.prng.choice(BROKERS)
        draw = self.prng.below(sum(weight for weight, _ in self.events))
        for weight, event in self.events:
            draw -= weight
            if draw < 0:
                event(broker)
                break
        self.check()

    # What must hold ----------------------------------------------------------------------------

    def check(self) -> None:
        self.collect()
        image = self.image
        for topic_id, topic in image.topics_by_id.items():
            for number, partition in topic.partitions.items():
                self.check_leader((topic_id, number), partition)

    def check_leader(self, key: Key, partition: PartitionImage) -> None:
        """LeaderCompleteness: the leader has all that was acknowledged."""
        leader = partition.leader
        if leader == NO_LEADER:
            return
        process, records = self.processes[leader], self.logs[leader].get(key, [])
        registered = self.image.brokers.get(leader)
        known = self.acknowledged.get(key, [])
        if partition.recovering and self.unclean.get(key) != (leader, partition.leader_epoch):
            # Elected uncleanly.
            self.unclean[key] = (leader, partition.leader_epoch)
            self.acknowledged[key] = known[: common_length(known, records)]
            return
        if process is None or registered is None or registered.broker_epoch != process.epoch:
            return
        place = self.places[leader].get(key)
        if key in self.lost[leader] or (place is not None and place not in process.directories):
            return
        assert records[: len(known)] == known, (
            f"LeaderCompleteness: {key[0].hex()[:8]}-{key[1]} {partition}: "
            f"{records} lacks some of {known}"
        )

    def settle(self) -> None:
        """All is quiet: who could lead leads."""
        self.late.clear()
        for _ in range(25):
            self.now = Instant(self.now + CONFIG.broker_session_timeout_ms // 8)
            self.go_on()
        self.commit(1000)
        self.check()
        image = self.image
        for topic in image.topics_by_id.values():
            for number, partition in topic.partitions.items():
                if partition.leader != NO_LEADER:
                    continue
                able = [
                    replica
                    for replica in {*partition.isr, *partition.eligible_leaders}
                    if image.is_active(replica) and image.has_directory(partition, replica)
                ]
                assert not able, f"{topic.name}-{number} {partition}: {able} could lead"
        assert not self.controller.has_long
        for process in self.processes.values():
            assert process is None or process.registered, "a broker is kept out"


def common_length(one: list[int], other: list[int]) -> int:
    """How many first records both have."""
    for position, pair in enumerate(zip(one, other, strict=False)):
        if pair[0] != pair[1]:
            return position
    return min(len(one), len(other))
