"""A cluster for scripted scenarios: brokers, one partition `orders-0`, and an oracle that watches.

The scenario decides who does what; the cluster notices by itself when a promise breaks:

- `LeaderCompleteness`: who leads by the newest metadata holds all that was ever committed;
- `CommittedOnce`: two leaders never show different records below their high watermarks;
- `FencedOutOfIsr`: no fenced broker is in an ISR or leads (where the real controller decides);
- at the end (`finish`): `Liveness` (all replicas become equal), `NothingLost` (what was
  acknowledged with acks=all is there), `RepeatableRead` (what was ever read is there),
  `NoDuplicates`.

A scenario in which records may be lost by consent (an unclean election) calls `forgive`.
"""

from collections.abc import Iterable
from typing import Any, Final

from tidelog.config import ReplicationConfig
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.log.log import Log
from tidelog.model import TopicPartition
from tidelog.sim.replicas.broker import Broker
from tidelog.sim.replicas.cluster import CONFIG, NO_PRODUCER_ID, Cluster, Producer
from tidelog.sim.replicas.controlled import ControlledFeed
from tidelog.sim.replicas.feed import MetadataFeed
from tidelog.sim.replicas.reading import Written, records_of, written_in
from tidelog.sim.report.violation import Violation
from tidelog.wire.fetch import READ_COMMITTED, FetchedPartition
from tidelog.wire.produce import ProducedPartition

TOPIC: Final = "orders"
KEY: Final = TopicPartition(TOPIC, 0)
STEP_MS: Final = 10
HEARTBEAT_MS: Final = 40


class WatchedCluster(Cluster):
    """A cluster whose topic is `orders`."""

    def __init__(
        self,
        nodes: Iterable[int],
        *,
        seed: int = 1,
        controlled: bool = False,
        config: ReplicationConfig = CONFIG,
    ) -> None:
        # Brokers whose heartbeats do not reach the controller.
        self.silent: set[int] = set()
        self._controlled = ControlledFeed(seed) if controlled else None
        self._next_heartbeat = 0
        # Everything that any leader ever showed below its high watermark, by offset.
        self.committed: dict[int, Written] = {}
        # What clients sent, by the name of the request: values and acks.
        self._sent: dict[str, tuple[list[bytes], int]] = {}
        # What was acknowledged with acks=all, by offset.
        self.acknowledged: dict[int, bytes] = {}
        # What consumers read, by offset.
        self._polled: dict[int, bytes] = {}
        # The requests whose answers were looked at.
        self._judged: set[str] = set()
        # What each leader looked like when it was looked at last.
        self._seen: dict[int, tuple[int, ...]] = {}
        # Events so far.
        self.event_count = 0
        super().__init__(nodes, config=config, feed=self._controlled or MetadataFeed())
        self.observers.append(self._watch)

    # Set-up and time ------------------------------------------------------------------------

    def topic(self, *replicas: int, **configs: str) -> None:
        """Creates `orders`, with `min_insync_replicas="2"` for `min.insync.replicas=2`."""
        self.run(50)
        named: dict[str, Any] = {key.replace("_", "."): configs[key] for key in configs}
        self.feed.create_topic(TOPIC, replicas, **named)
        self.run(20)

    def run(self, for_ms: int) -> None:
        """Moves time; under a real controller brokers heartbeat meanwhile."""
        feed = self._controlled
        if feed is None:
            super().run(for_ms)
            return
        end = Instant(self.now + for_ms)
        while True:
            feed.now = self.now
            if self.now >= self._next_heartbeat:
                self._next_heartbeat = self.now + HEARTBEAT_MS
                self._heartbeat(feed)
            feed.wake()
            super().run(min(STEP_MS, end - self.now))
            if self.now >= end:
                return

    def _heartbeat(self, feed: ControlledFeed) -> None:
        for node, broker in self.brokers.items():
            if not broker.running or node in self.silent:
                continue
            if broker.replicas.broker_epoch < 0:
                broker.replicas.broker_epoch = feed.register(node)
            else:
                feed.heartbeat(node, broker.replicas.broker_epoch)

    # Clients --------------------------------------------------------------------------------

    def send(
        self,
        node: int,
        *values: str,
        acks: int = -1,
        producer: Producer = NO_PRODUCER_ID,
        key: bytes | None = None,
    ) -> str:
        """Sends one batch and lets the broker see it; the answer is in `answer_to`."""
        encoded = [value.encode() for value in values]
        name = self.produce(node, encoded, acks=acks, producer=producer, key=key)
        self._sent[name] = (encoded, acks)
        super().run(0)
        return name

    def read(self, node: int, offset: int, *, committed: bool = False, rack_id: str = "") -> str:
        """A consumer's fetch that does not wait."""
        isolation = READ_COMMITTED if committed else 0
        name = self.fetch(node, offset, isolation_level=isolation, rack_id=rack_id)
        super().run(0)
        return name

    def answer_to(self, name: str) -> Any:
        """The answer to a request, `None` while there is none."""
        replies = self.replies.get(name)
        return None if replies is None else replies[0]

    def elect_survivor(self) -> int:
        """What a controller does that knows nothing but the ISR: the first live member leads, if
        there is one; returns its id, or -1."""
        newest = self.feed.partition(TOPIC)
        alive = [node for node in newest.isr if self.brokers[node].running]
        leader = alive[0] if alive else -1
        self.feed.change(TOPIC, leader=leader, isr=tuple(alive) or newest.isr)
        return leader

    def code_of(self, name: str) -> ErrorCode | None:
        """The error code of the answer, `None` while there is none."""
        answer = self.answer_to(name)
        return None if answer is None else answer.error_code

    def offsets_in(self, name: str) -> list[int]:
        """The offsets of the records in the answer to a fetch."""
        return [record.offset for record in written_in(self.answer_to(name))]

    # Looking --------------------------------------------------------------------------------

    def log_of(self, node: int) -> Log:
        """The log of a replica."""
        return self.brokers[node].log(TOPIC)

    def values(self, node: int) -> list[str]:
        """The values in a replica's log."""
        return [(record.value or b"").decode() for record in records_of(self.log_of(node))]

    def forgive(self) -> None:
        """What was committed so far may be lost: an unclean election was asked for."""
        self.committed.clear()
        self.acknowledged.clear()
        self._polled.clear()
        self._seen.clear()

    def _watch(self, broker: Broker) -> None:
        self.event_count += 1
        self._judge_answers()
        topic = self.feed.image.topics_by_name.get(TOPIC)
        if topic is None:
            return
        newest = topic.partitions[0]
        if self._controlled is not None:
            self._check_isr(newest.isr, newest.leader)
        log = broker.directory.logs.get(KEY) if broker.running else None
        partition = broker.replicas.partitions.get(KEY)
        if log is None or partition is None or partition.leadership is None:
            return
        look = (
            broker.incarnation,
            log.high_watermark,
            log.log_end_offset,
            log.latest_epoch,
            newest.leader_epoch,
            len(self.committed),
        )
        if self._seen.get(broker.node_id) == look:
            return
        self._seen[broker.node_id] = look
        leads = newest.leader == broker.node_id and newest.leader_epoch == partition.leader_epoch
        self._compare(broker, log, leads=leads)

    def _compare(self, broker: Broker, log: Log, *, leads: bool) -> None:
        held = {record.offset: record for record in records_of(log)}
        for offset in range(log.log_start_offset, log.high_watermark):
            record = held.get(offset)
            if record is None:
                continue
            known = self.committed.setdefault(offset, record)
            if known != record:
                text = f"b{broker.node_id} shows {record}, committed is {known}"
                raise Violation("CommittedOnce", text)
        if not leads:
            return
        for offset, known in sorted(self.committed.items()):
            if offset >= log.log_start_offset and held.get(offset) != known:
                text = f"b{broker.node_id} leads and has {held.get(offset)} for {known}"
                raise Violation("LeaderCompleteness", text)

    def _check_isr(self, isr: tuple[int, ...], leader: int) -> None:
        image = self.feed.image
        # Without eligible leaders the last member stays in the ISR, leaderless.
        for member in isr if leader >= 0 else ():
            if image.brokers[member].fenced:
                raise Violation("FencedOutOfIsr", f"broker {member} is fenced and in {isr}")

    def _judge_answers(self) -> None:
        for name in list(self.replies):
            if name in self._judged:
                continue
            self._judged.add(name)
            answer = self.answer_to(name)
            if answer.error_code is not ErrorCode.NONE:
                continue
            if isinstance(answer, FetchedPartition):
                self._polled.update(
                    (record.offset, record.value or b"") for record in written_in(answer)
                )
            elif isinstance(answer, ProducedPartition):
                values, acks = self._sent[name]
                if acks == -1:
                    self.acknowledged.update(enumerate(values, answer.base_offset))

    # The end --------------------------------------------------------------------------------

    def heal(self) -> None:
        """Every link, device, process and reader of metadata works again."""
        self.cut.clear()
        for link in sorted(self.held):
            self.release(*link)
        self.controller = "decides"
        self.silent.clear()
        for node, broker in self.brokers.items():
            broker.sees_metadata, broker.lives_in_the_past = True, False
            broker.metadata_end = 2**62
            broker.flushes, broker.disk.failing = True, None
            if not broker.running:
                self.start(node)

    def finish(self, *, within_ms: int = 4_000) -> None:
        """Heals everything and judges."""
        self.heal()
        for _ in range(within_ms // 100):
            self.run(100)
            if self._is_settled():
                break
        else:
            differ = not self._differ_in_length() and not self._are_equal()
            name = "ReplicasEqual" if differ else "Liveness"
            raise Violation(name, f"not settled in {within_ms} ms: {self._describe()}")
        self._judge_answers()
        leader = self.feed.partition(TOPIC).leader
        held = {record.offset: record.value for record in records_of(self.log_of(leader))}
        start = self.log_of(leader).log_start_offset
        _compare_values("NothingLost", self.acknowledged, held, start)
        _compare_values("RepeatableRead", self._polled, held, start)
        values = list(held.values())
        if len(set(values)) != len(values):
            raise Violation("NoDuplicates", f"{values}")

    def _is_settled(self) -> bool:
        newest = self.feed.partition(TOPIC)
        if newest.leader < 0 or set(newest.isr) != set(newest.replicas):
            return False
        return not self._differ_in_length() and self._are_equal()

    def _logs(self) -> list[Log]:
        return [self.log_of(node) for node in self.feed.partition(TOPIC).replicas]

    def _are_equal(self) -> bool:
        logs = self._logs()
        start = max(log.log_start_offset for log in logs)
        first, *others = [
            [record for record in records_of(log) if record.offset >= start] for log in logs
        ]
        return all(other == first for other in others)

    def _differ_in_length(self) -> bool:
        ends = {end for log in self._logs() for end in (log.log_end_offset, log.high_watermark)}
        return len(ends) != 1

    def _describe(self) -> str:
        newest = self.feed.partition(TOPIC)
        logs = {
            node: (self.log_of(node).high_watermark, self.values(node)) for node in newest.replicas
        }
        return f"leader {newest.leader} isr {newest.isr} {logs}"


def _compare_values(
    name: str, expected: dict[int, bytes], held: dict[int, bytes | None], start: int
) -> None:
    for offset, value in sorted(expected.items()):
        if offset >= start and held.get(offset) != value:
            raise Violation(name, f"offset {offset} was {value!r}, in the end {held.get(offset)!r}")
