"""Requests and answers between replicas, as values, over links that lose, delay and hold back.

A lost message is noticed by timeout only, a request to a dead process after a moment. What a cut
link holds back may arrive when it heals, seconds late.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.kraft import messages
from tidelog.kraft.committed import contiguous
from tidelog.kraft.voters import SUPPORTED_VERSIONS
from tidelog.sim.engine.timeline import Timeline
from tidelog.sim.quorum.membership import node_at
from tidelog.sim.quorum.options import Conditions
from tidelog.sim.quorum.replica import Replica

REFUSED_MS = 1

Act = Callable[[Replica, Callable[[], None]], None]
"""Gives one input to a replica and ends its tick."""


@dataclass(frozen=True, slots=True)
class ReplyTo:
    """The requester of a request that is being answered."""

    requester: int
    life: int
    peer_id: int
    request: messages.Request


class Exchange:
    """All messages that are under way."""

    def __init__(
        self,
        timeline: Timeline,
        prng: Prng,
        conditions: Conditions,
        replicas: Mapping[int, Replica],
        act: Act,
    ) -> None:
        self._timeline = timeline
        self._prng = prng
        self._conditions = conditions
        self._replicas = replicas
        self._act = act
        # Directed links that are cut, and what they hold back.
        self._cuts: set[tuple[int, int]] = set()
        self._held: list[Callable[[], None]] = []

    def cut(self, source: int, target: int) -> None:
        """Nothing gets through in this direction."""
        self._cuts.add((source, target))

    def heal(self) -> None:
        """All links work; what was held back arrives."""
        self._cuts.clear()
        held, self._held = self._held, []
        for deliver in held:
            deliver()

    def _carry(self, source: int, target: Replica, deliver: Callable[[], None]) -> None:
        if self._prng.chance(self._conditions.loss_percent, 100):
            return

        def arrive() -> None:
            if (source, target.node_id) not in self._cuts:
                deliver()
            elif self._prng.chance(self._conditions.hold_percent, 100):
                self._held.append(target.in_this_life(deliver))

        delay_ms = self._prng.between(1, self._conditions.latency_ms)
        self._timeline.at(delay_ms, target.in_this_life(arrive))

    def send_request(self, sender: Replica, output: messages.SendRequest) -> None:
        """Sends a request to a peer, known by its id or by its address only."""
        peer_id, request, target = output.peer_id, output.request, output.peer_id
        if target < 0:
            target = node_at(output.endpoint)
        peer = self._replicas[target]
        sender.requests.append((peer_id, request, target))
        if not peer.alive:
            self._fail(sender, peer_id, request)
            return
        reply_to = ReplyTo(sender.node_id, sender.life, peer_id, request)

        def deliver() -> None:
            if isinstance(request, messages.SupportRequest):
                # The node answers it, not its quorum.
                supported = messages.SupportResponse(ErrorCode.NONE, SUPPORTED_VERSIONS)
                self.send_reply(peer, messages.Reply(reply_to, supported))
                return
            self._act(peer, lambda: peer.quorum.on_request(request, reply_to, self._timeline.now))

        self._carry(sender.node_id, peer, deliver)

    def send_reply(self, sender: Replica, reply: messages.Reply) -> None:
        """Sends an answer back, unless the process that asked has ended."""
        to = reply.reply_to
        assert isinstance(to, ReplyTo), f"{to} is not a requester"
        response = _without_files(reply.response)
        requester = self._replicas[to.requester]
        if requester.alive and requester.life == to.life:
            self._carry(
                sender.node_id,
                requester,
                lambda: self.answer(requester, to.peer_id, to.request, response),
            )

    def answer(
        self,
        requester: Replica,
        peer_id: int,
        request: messages.Request,
        response: messages.Response | None,
    ) -> None:
        """Delivers an answer, unless there was one already; `None` is a broken connection."""
        kept = [one for one in requester.requests if one[1] is not request]
        if len(kept) == len(requester.requests):
            return
        requester.requests = kept
        self._act(
            requester,
            lambda: requester.quorum.on_response(peer_id, request, response, self._timeline.now),
        )

    def on_process_ended(self, dead: Replica) -> None:
        """Every request to this process fails."""
        for other in self._replicas.values():
            for peer_id, request, target in list(other.requests) if other.alive else ():
                if target == dead.node_id:
                    self._fail(other, peer_id, request)

    def _fail(self, sender: Replica, peer_id: int, request: messages.Request) -> None:
        self._timeline.at(
            REFUSED_MS, sender.in_this_life(lambda: self.answer(sender, peer_id, request, None))
        )


def _without_files(response: messages.Response) -> messages.Response:
    """Records as bytes: the answerer's file may be gone when the answer arrives."""
    if not isinstance(response, messages.QuorumFetchResponse) or not response.records:
        return response
    return replace(response, records=(contiguous(response.records),))
