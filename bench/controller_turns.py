"""How long the controller keeps its node, and what a node spends to follow it: milliseconds.

    python -m bench.controller_turns                    # 10,000 partitions, 3 brokers
    python -m bench.controller_turns --partitions 3000 --one-topic --output json

One process, no network and no disk: an active controller on a log of memory, and beside it what
each node does with the same records before its replicas act (decoding and folding). Commits come at
once. Every operation is driven as a node drives it, turn by turn, until nothing is due any more.
Time is the thread's CPU time, which other work on the machine hardly changes. A row has the longest
turn of the controller, the sum of its turns and their number; the longest turn of one that follows;
records and batches.
"""

import argparse
import gc
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from tidelog.broker.features import FEATURES
from tidelog.config import ControllerConfig
from tidelog.controller import messages
from tidelog.controller import topic_messages as topics
from tidelog.controller.controller import Controller
from tidelog.env.event import Event
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace, TraceLine
from tidelog.kraft.messages import CommittedBatch
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage
from tidelog.metadata.image_records import image_records
from tidelog.metadata.record_codec import decode_record, encode_record
from tidelog.model import Endpoint, Uuid
from tidelog.records.batch import build_batch
from tidelog.records.record import Record

PER_TOPIC = 100
SERVED = {name: messages.FeatureRange(*levels) for name, levels in FEATURES.items()}


class Silence:
    """A sink that counts."""

    def __init__(self) -> None:
        self.events = 0

    def emit(self, _: Event | TraceLine) -> None:
        """Takes one."""
        self.events += 1


class Log:
    """A log whose appends cost what the quorum's do, without the file."""

    def __init__(self) -> None:
        self.end_offset = 0
        self.new: list[CommittedBatch] = []

    def append(self, records: Sequence[bytes]) -> int:
        """Appends a batch that is committed in this turn."""
        build_batch([Record(0, None, value) for value in records])
        return self.add(records, is_control=False)

    def add(self, records: Sequence[bytes], *, is_control: bool) -> int:
        """Adds a batch."""
        base, self.end_offset = self.end_offset, self.end_offset + len(records)
        last = self.end_offset - 1
        self.new.append(CommittedBatch(base, last, 1, 0, list(records), is_control))
        return last


class Bench:
    """A controller, time, and the rows."""

    def __init__(self) -> None:
        self.log = Log()
        self.sink = Silence()
        self.controller = Controller(
            node_id=100,
            cluster_id="c",
            config=ControllerConfig(default_replication_factor=3, min_insync_replicas=2),
            log=self.log,
            prng=Prng(1),
            trace=Trace(self.sink),
        )
        self.now = Instant(10_000)
        self.followed = EMPTY_IMAGE
        self.epochs: dict[int, int] = {}
        self.rows: list[dict[str, Any]] = []
        start = self.log.add([b"leader change"], is_control=True)
        self.controller.on_leader_change(100, 1, start, self.now)
        self.run("start", lambda: None)

    def run(self, name: str, act: Callable[[], None]) -> Any:
        """Times one operation, turn by turn; the answer, if there is one."""
        controller, turns, follows = self.controller, [], []
        records = batches = 0
        decode_record.cache_clear()
        gc.collect()
        answers: list[Any] = []
        seen = self.sink.events
        while True:
            began = time.thread_time()
            act()
            controller.wake(self.now)
            new, self.log.new = self.log.new, []
            for batch in new:
                controller.on_committed(batch, self.now)
            answers += controller.take_outputs()
            turns.append(time.thread_time() - began)
            records += sum(len(batch.records) for batch in new)
            batches += len(new)
            if new:
                decode_record.cache_clear()
                began = time.thread_time()
                self.follow(new)
                follows.append(time.thread_time() - began)
            deadline = controller.deadline()
            if (deadline is None or deadline > self.now) and not new:
                break
            act = lambda: None  # noqa: E731
        self.rows.append(
            {
                "operation": name,
                "longest_ms": round(max(turns) * 1000, 1),
                "sum_ms": round(sum(turns) * 1000, 1),
                "turns": len(turns),
                "follow_longest_ms": round(max(follows, default=0) * 1000, 1),
                "records": records,
                "batches": batches,
                "events": self.sink.events - seen,
            }
        )
        return answers[-1].response if answers else None

    def follow(self, batches: Sequence[CommittedBatch]) -> None:
        """What a broker does before its replicas act."""
        delta = MetadataDelta(self.followed)
        for batch in batches:
            if not batch.is_control:
                for index, value in enumerate(batch.records):
                    delta.replay(decode_record(value), batch.base_offset + index)
        self.followed = delta.apply(batches[-1].last_offset, 1)

    def ask(self, name: str, request: messages.Request) -> Any:
        """Times a request."""
        return self.run(name, lambda: self.controller.handle(request, name, self.now))

    @property
    def image(self) -> MetadataImage:
        """The committed metadata."""
        return self.controller.image

    def register(self, broker_id: int, incarnation: int = 1, previous: int = -1) -> None:
        """A broker comes, and is unfenced."""
        directory = Uuid(b"d" * 15 + bytes((broker_id,)))
        incarnation_id = Uuid(bytes((incarnation,)) * 15 + bytes((broker_id,)))
        endpoints = (Endpoint("PLAINTEXT", "h", 9092),)
        request = messages.RegisterBroker(
            broker_id, "c", incarnation_id, endpoints, None, SERVED, (directory,), previous
        )
        answer = self.ask("register", request)
        self.epochs[broker_id] = answer.broker_epoch
        self.beat(broker_id, "unfence")

    def beat(self, broker_id: int, name: str = "heartbeat", *, stop: bool = False) -> Any:
        """A heartbeat."""
        seen = self.log.end_offset - 1
        epoch = self.epochs[broker_id]
        return self.ask(name, messages.BrokerHeartbeat(broker_id, epoch, seen, False, stop))

    def rejoin(self, broker_id: int, name: str) -> None:
        """Leaders take a replica into their ISRs again."""
        found: dict[int, list[messages.IsrProposal]] = {}
        for topic in self.image.topics_by_id.values():
            for number, one in topic.partitions.items():
                if broker_id in one.isr or broker_id not in one.replicas or one.leader < 0:
                    continue
                isr = tuple(
                    messages.IsrMember(replica, self.epochs[replica])
                    for replica in (*one.isr, broker_id)
                )
                wish = messages.IsrProposal(
                    topic.topic_id, number, one.leader_epoch, one.partition_epoch, isr
                )
                found.setdefault(one.leader, []).append(wish)
        for leader, wishes in found.items():
            self.ask(name, messages.AlterPartition(leader, self.epochs[leader], tuple(wishes)))


def measure(partitions: int, *, one_topic: bool, brokers: int) -> list[dict[str, Any]]:
    """All operations, one after the other."""
    bench = Bench()
    for broker_id in range(1, brokers + 1):
        bench.register(broker_id)
    size = partitions if one_topic else PER_TOPIC
    for number in range(partitions // size):
        wish = topics.NewTopic(f"t{number:03}", size, 3)
        bench.ask("create", topics.CreateTopics((wish,)))
    bench.rows = []
    bench.ask("create 3,000", topics.CreateTopics((topics.NewTopic("big", 3_000, 3),)))
    bench.ask("delete 3,000", topics.DeleteTopics((topics.TopicRef("big"),)))
    small = tuple(topics.NewTopic(f"s{number:04}", 1, 3) for number in range(1_000))
    bench.ask("create 1,000 x 1", topics.CreateTopics(small))
    refs = tuple(topics.TopicRef(topic.name) for topic in small)
    bench.ask("delete 1,000 x 1", topics.DeleteTopics(refs))
    bench.beat(1)
    for each in range(2, brokers + 1):
        bench.beat(each)
    # It is silent for longer than the grace period, or it would be taken for alive.
    bench.now = Instant(bench.now + 1000)
    for each in range(2, brokers + 1):
        bench.beat(each)
    bench.run("fence", lambda: bench.controller.on_broker_suspected(1, bench.now))
    assert bench.image.brokers[1].fenced, "the row `fence` fences"
    for each in range(2, brokers + 1):
        bench.beat(each)
    bench.register(1, 2)
    bench.rejoin(1, "isr joins")
    elect = messages.ElectLeaders(0, None)
    bench.ask("elect preferred", elect)
    wishes = [
        messages.Reassignment(topic.name, number, tuple(reversed(one.replicas)))
        for topic in bench.image.topics_by_id.values()
        for number, one in topic.partitions.items()
    ]
    bench.ask("reassign 1,000", messages.AlterReassignments(tuple(wishes[:1000])))
    bench.beat(2, "controlled shutdown", stop=True)
    bench.now = Instant(bench.now + 300_000)
    bench.run("no session", lambda: None)
    began = time.thread_time()
    image = bench.image
    count = sum(1 for record in image_records(image) if encode_record(record))
    took = time.thread_time() - began
    bench.rows.append({"operation": "snapshot", "sum_ms": round(took * 1000, 1), "records": count})
    return bench.rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--one-topic", action="store_true", help="all partitions in one topic")
    parser.add_argument("--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)  # As a node does.
    rows = measure(options.partitions, one_topic=options.one_topic, brokers=options.brokers)
    if options.output == "json":
        print(json.dumps(rows))
        return
    names = list(rows[0])
    print("  ".join(f"{name:>20}" for name in names))
    for row in rows:
        print("  ".join(f"{row.get(name, '')!s:>20}" for name in names))


if __name__ == "__main__":
    main()
