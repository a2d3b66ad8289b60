"""The links between brokers: they take one millisecond, refuse messages or keep them back.

A request of one broker to another is a `Call`; it is answered once, perhaps by a broken connection.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from tidelog.broker.fetch_sessions import FetchSession
from tidelog.errors import ProtocolError
from tidelog.kraft.committed import contiguous
from tidelog.replication.messages import ListOffsetsResult, SendFetch, SendListOffsets
from tidelog.sim.engine.timeline import Timeline
from tidelog.sim.replicas.broker import Broker
from tidelog.wire.fetch import FetchedPartition, FetchRequest, FetchResponse

LINK_MS = 1

Sent = SendFetch | SendListOffsets


@dataclass(eq=False)
class Call:
    """A request of one broker to another that is under way; the `reply_to` of its fetch."""

    sender: int
    incarnation: int
    sent: Sent
    session: FetchSession | None = None

    @property
    def key(self) -> tuple[int, int, int]:
        """Unique in a run."""
        return (self.sender, self.incarnation, self.sent.token)


class Links:
    """All messages between brokers that are under way."""

    def __init__(self, timeline: Timeline, brokers: Mapping[int, Broker]) -> None:
        self._timeline = timeline
        self._brokers = brokers
        # Links that refuse messages, as (sender, receiver).
        self.cut: set[tuple[int, int]] = set()
        # Links that keep messages back.
        self.held: set[tuple[int, int]] = set()
        # What they keep back, in order.
        self._kept_back: list[tuple[tuple[int, int], Callable[[], None]]] = []
        # Requests without an answer.
        self._calls: dict[tuple[int, int, int], Call] = {}

    def send(self, sender: Broker, sent: Sent) -> None:
        """Sends a request of a broker to the leader that it names."""
        call = Call(sender.node_id, sender.incarnation, sent)
        self._calls[call.key] = call
        link = (sender.node_id, sent.leader_id)
        if link in self.cut or not self._brokers[sent.leader_id].running:
            self._fail(call)
        else:
            self._travel(link, lambda: self._arrive(call))

    def _travel(self, link: tuple[int, int], action: Callable[[], None]) -> None:
        if link in self.held:
            self._kept_back.append((link, action))
        else:
            self._timeline.at(LINK_MS, action)

    def release(self, sender: int, receiver: int) -> None:
        """Delivers what was kept back on a link, and keeps nothing back any more."""
        self.held.discard((sender, receiver))
        kept = self._kept_back
        self._kept_back = []
        for link, action in kept:
            self._travel(link, action)

    def _arrive(self, call: Call) -> None:
        leader = self._brokers[call.sent.leader_id]
        if call.key not in self._calls:
            return
        if not leader.running or (call.sender, leader.node_id) in self.cut:
            self.answer(call, None)
        elif isinstance(call.sent, SendListOffsets):
            ask = partial(leader.replicas.list_offset, replica_id=call.sender, isolation_level=0)
            results = [*map(ask, call.sent.queries)]
            self._travel((leader.node_id, call.sender), lambda: self.answer(call, results))
        else:
            self._fetch_as_follower(leader, call, call.sent.request)

    def _fetch_as_follower(self, leader: Broker, call: Call, request: FetchRequest) -> None:
        try:
            call.session, interest = leader.sessions.open(request, True, self._timeline.now)
        except ProtocolError as error:
            self.answer_follower(leader, call, FetchResponse(0, error.code, 0, []))
            return
        leader.replicas.fetch(request, call, self._timeline.now, interest=interest)

    def answer_follower(self, leader: Broker, call: Call, response: FetchResponse) -> None:
        """Sends the answer to a fetch, without the partitions that have no news."""
        assert isinstance(call.sent, SendFetch), f"{call.sent} answered with {response}"
        full = call.sent.request.session_epoch <= 0
        response = leader.sessions.close(response, call.session, full)
        response = response._replace(partitions=[_in_transit(part) for part in response.partitions])
        self._travel((leader.node_id, call.sender), lambda: self.answer(call, response))

    def call_of(self, sender: int) -> Call:
        """The request that a broker has under way."""
        (call,) = (call for call in self._calls.values() if call.sender == sender)
        return call

    def call_between(self, sender: int, leader: int) -> Call:
        """The newest request from one broker to another."""
        *_, call = (
            call
            for call in self._calls.values()
            if call.sender == sender and call.sent.leader_id == leader
        )
        return call

    def answer(self, call: Call, answer: FetchResponse | list[ListOffsetsResult] | None) -> None:
        """Delivers an answer, unless there was one already; `None` is a broken connection."""
        sender = self._brokers[call.sender]
        if self._calls.pop(call.key, None) is None:
            return
        if not sender.running or sender.incarnation != call.incarnation:
            return
        if answer is not None and (call.sent.leader_id, call.sender) in self.cut:
            answer = None
        if isinstance(call.sent, SendFetch):
            assert answer is None or isinstance(answer, FetchResponse), f"{answer}"
            sender.replicas.on_fetch_response(call.sent.token, answer, self._timeline.now)
        else:
            assert answer is None or isinstance(answer, list), f"{answer}"
            sender.replicas.on_list_offsets_response(call.sent.token, answer, self._timeline.now)

    def on_process_ended(self, node: int) -> None:
        """Every request to this broker fails after a moment."""
        for call in list(self._calls.values()):
            if call.sent.leader_id == node:
                self._fail(call)

    def _fail(self, call: Call) -> None:
        self._timeline.at(LINK_MS, lambda: self.answer(call, None))


def _in_transit(part: FetchedPartition) -> FetchedPartition:
    """The answer as it arrives: one buffer, whatever it was read from."""
    data = contiguous(part.records)
    assert len(data) == part.records_bytes, f"{len(data)} bytes, {part.records_bytes} announced"
    return part._replace(records=[data] if data else [])
