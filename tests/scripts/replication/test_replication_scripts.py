"""Golden scripts of replication: a few brokers in virtual time, driven by commands.

Everything that happens by a command is below it: trace lines as the nodes would log them, and
answers to clients. Time stands still but for `run MS`. Links take one millisecond.

    cluster [1,2,3]                            brokers, registered and unfenced
    topic NAME replicas=1,2,3 [CONFIG=VALUE]…  partition 0, first replica leads, all in sync
    produce NODE VALUE… [acks=all|1|0] [timeout=MS]        one batch; answered as p1, p2, …
    fetch NODE offset=N [committed=yes] [wait=MS]          a consumer; answered as f1, f2, …
    offset NODE timestamp=N                    ListOffsets by a client
    elect NODE isr=1,2                         a new leader epoch
    isr 1,2                                    the controller changes the ISR by itself
    fence NODE, unfence NODE, kill NODE, start NODE [unfence=no], configure KEY VALUE
    cut A B, heal A B                          connections between two brokers fail, or work
    hold A B, release A B                      messages from A to B are kept back, or delivered
    metadata NODE off|on|past, flushes NODE off|on, disk NODE broken
    controller decides|silent|unreachable|ERROR_NAME       what AlterPartition is answered
    forge NODE VALUE@EPOCH…                    the answer to the fetch that NODE has under way
    trim NODE OFFSET                           raises the log start (as DeleteRecords does)
    recreate replicas=1,2,3                    the topic is deleted and made again
    show                                       the replica of each broker
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.scripts.runner import Command, run_script, script_name, scripts_beside
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.replication.messages import ListOffsetsQuery, SendFetch
from tidelog.sim.replicas.cluster import Cluster
from tidelog.sim.replicas.reading import records_of, values_in
from tidelog.wire.fetch import FetchedPartition, FetchResponse
from tidelog.wire.produce import ProducedPartition

TOPIC = "orders"
ACKS = {"all": -1, "1": 1, "0": 0}


def numbers(text: str) -> tuple[int, ...]:
    """`1,2,3` as integers."""
    return tuple(int(number) for number in text.split(","))


class Interpreter:
    """One script's world."""

    def __init__(self) -> None:
        self.cluster = Cluster(())
        self._reported: set[str] = set()

    def run(self, command: Command) -> Iterator[str]:
        """Carries out a command; yields what it caused."""
        method: Callable[[Command], list[str] | None] = getattr(self, f"do_{command.name}")
        answer = method(command)
        if command.name != "run":
            self.cluster.run(0)
        lines = [*self.cluster.lines]
        self.cluster.lines.clear()
        yield from lines
        for name, partitions in self.cluster.replies.items():
            if name not in self._reported:
                self._reported.add(name)
                yield f"{name} {describe_reply(partitions[0])}"
        yield from answer or ()

    # Set-up -----------------------------------------------------------------------------------

    def do_cluster(self, command: Command) -> None:
        """Brokers."""
        self.cluster = Cluster(numbers(command.word()) if command.words else (1, 2, 3))

    def do_topic(self, command: Command) -> None:
        """A topic; every other command is about `orders`."""
        configs = dict(command.options)
        replicas = numbers(configs.pop("replicas"))
        self.cluster.feed.create_topic(command.word(), replicas, **configs)

    def do_run(self, command: Command) -> None:
        """Moves time."""
        self.cluster.run(int(command.word()))

    # Clients ----------------------------------------------------------------------------------

    def do_produce(self, command: Command) -> None:
        """One batch."""
        command.check_options("acks", "timeout")
        node, *values = command.words
        self.cluster.produce(
            int(node),
            [value.encode() for value in values],
            acks=ACKS[command.text("acks", "all")],
            timeout_ms=command.number("timeout", 60_000),
        )

    def do_fetch(self, command: Command) -> None:
        """A consumer's fetch."""
        command.check_options("offset", "committed", "wait")
        self.cluster.fetch(
            int(command.word()),
            command.number("offset"),
            isolation_level=int(command.text("committed", "no") == "yes"),
            max_wait_ms=command.number("wait", 0),
        )

    def do_offset(self, command: Command) -> list[str]:
        """ListOffsets by a client."""
        query = ListOffsetsQuery(TOPIC, 0, -1, command.number("timestamp"))
        replicas = self.cluster.brokers[int(command.word())].replicas
        result = replicas.list_offset(query, replica_id=-1, isolation_level=0)
        return [f"{result.error_code.name} offset={result.offset} epoch={result.leader_epoch}"]

    # The controller ---------------------------------------------------------------------------

    def do_elect(self, command: Command) -> None:
        """A new leader epoch."""
        command.check_options("isr")
        leader, isr = int(command.word()), numbers(command.text("isr"))
        self.cluster.feed.change(TOPIC, leader=leader, isr=isr)

    def do_isr(self, command: Command) -> None:
        """The controller changes the ISR."""
        self.cluster.feed.change(TOPIC, isr=numbers(command.word()))

    def do_configure(self, command: Command) -> None:
        """A topic config."""
        self.cluster.feed.configure(TOPIC, command.word(0), command.word(1))

    def do_recreate(self, command: Command) -> None:
        """The topic gets another id."""
        self.cluster.feed.delete_topic(TOPIC)
        self.cluster.feed.create_topic(TOPIC, numbers(command.text("replicas")))

    def do_fence(self, command: Command) -> None:
        """Out of every ISR to be."""
        self.cluster.feed.fence(int(command.word()))

    def do_unfence(self, command: Command) -> None:
        """Back again."""
        self.cluster.feed.unfence(int(command.word()))

    def do_controller(self, command: Command) -> None:
        """What proposals are answered."""
        self.cluster.controller = command.word()

    # Faults -----------------------------------------------------------------------------------

    def do_kill(self, command: Command) -> None:
        """The process ends."""
        self.cluster.kill(int(command.word()))

    def do_start(self, command: Command) -> None:
        """A new process."""
        command.check_options("unfence")
        unfence = command.text("unfence", "yes") == "yes"
        self.cluster.start(int(command.word()), unfence=unfence)

    def do_cut(self, command: Command) -> None:
        """Both directions fail."""
        a, b = int(command.word(0)), int(command.word(1))
        self.cluster.cut |= {(a, b), (b, a)}

    def do_heal(self, command: Command) -> None:
        """Both directions work."""
        a, b = int(command.word(0)), int(command.word(1))
        self.cluster.cut -= {(a, b), (b, a)}

    def do_hold(self, command: Command) -> None:
        """One direction is kept back."""
        self.cluster.held.add((int(command.word(0)), int(command.word(1))))

    def do_release(self, command: Command) -> None:
        """And delivered."""
        self.cluster.release(int(command.word(0)), int(command.word(1)))

    def do_metadata(self, command: Command) -> None:
        """How far a broker has read the metadata log."""
        broker = self.cluster.brokers[int(command.word())]
        broker.sees_metadata = command.word(1) != "off"
        broker.lives_in_the_past = command.word(1) == "past"

    def do_flushes(self, command: Command) -> None:
        """Whether a broker's device flushes."""
        self.cluster.brokers[int(command.word())].flushes = command.word(1) == "on"

    def do_disk(self, command: Command) -> None:
        """A broker's device fails."""
        assert command.word(1) == "broken", f"{command.where}: a disk breaks for good"
        self.cluster.brokers[int(command.word())].disk.failing = "input/output error"

    def do_trim(self, command: Command) -> None:
        """Raises the log start."""
        log = self.cluster.brokers[int(command.word(0))].log(TOPIC)
        log.maybe_raise_log_start_offset(int(command.word(1)))

    def do_forge(self, command: Command) -> None:
        """Answers the fetch under way with batches of any epoch."""
        node, *values = command.words
        broker = self.cluster.brokers[int(node)]
        log = broker.log(TOPIC)
        batches = []
        offset = log.log_end_offset
        for word in values:
            value, epoch = word.split("@")
            batches.append(
                build_batch(
                    [Record(1000, None, value.encode())],
                    base_offset=offset,
                    leader_epoch=int(epoch),
                )
            )
            offset += 1
        data = b"".join(batches)
        topic_id = self.cluster.feed.image.topics_by_name[TOPIC].topic_id
        part = FetchedPartition(
            TOPIC, topic_id, 0, ErrorCode.NONE, offset, offset, 0, [data], len(data)
        )
        call = self.cluster.links.call_of(int(node))
        assert isinstance(call.sent, SendFetch), f"{command.where}: no fetch is under way"
        session_id = call.sent.request.session_id
        self.cluster.links.answer(call, FetchResponse(0, ErrorCode.NONE, session_id, [part]))

    # Looking ----------------------------------------------------------------------------------

    def do_show(self, _: Command) -> list[str]:
        """One line for each running broker that hosts the partition."""
        return [
            line
            for node, broker in self.cluster.brokers.items()
            if broker.running and (line := self._line(node))
        ]

    def _line(self, node: int) -> str | None:
        broker = self.cluster.brokers[node]
        partition = broker.replicas.partitions.get(TopicPartition(TOPIC, 0))
        if partition is None:
            return None
        leadership = partition.leadership
        log = broker.log(TOPIC)
        isr = ""
        if leadership is not None:
            isr = f" isr={join(leadership.isr)}"
            if leadership.maximal_isr != leadership.isr:
                isr += f" maximal={join(leadership.maximal_isr)}"
        epochs = ",".join(f"{epoch}@{start}" for epoch, start in log.epochs.entries)
        values = " ".join((record.value or b"").decode() for record in records_of(log))
        return (
            f"b{node} {partition.role.value} epoch={partition.leader_epoch}{isr}"
            f" start={log.log_start_offset} hw={log.high_watermark} end={log.log_end_offset}"
            f" epochs={epochs or '-'}: {values}"
        )


def join(members: tuple[int, ...]) -> str:
    """Integers as `1,2,3`."""
    return ",".join(str(member) for member in members)


def describe_reply(part: ProducedPartition | FetchedPartition) -> str:
    """One line."""
    if isinstance(part, ProducedPartition):
        hint = f" leader={part.current_leader.leader_id}" if part.current_leader else ""
        offset = f" offset={part.base_offset}" if part.base_offset >= 0 else ""
        return f"{part.error_code.name}{offset}{hint}"
    if part.error_code is not ErrorCode.NONE:
        return part.error_code.name
    values = " ".join(value.decode() for value in values_in(part))
    return f"{part.error_code.name} hw={part.high_watermark}: {values}"


@pytest.mark.parametrize("script", scripts_beside(__file__), ids=script_name)
def test_script(script: Path, rewrite_scripts: bool) -> None:
    """Each script has what happens and what must come of it."""
    run_script(script, Interpreter().run, rewrite=rewrite_scripts)
