"""Simulated streams: what two ends of a TCP connection see of each other.

A stream is two `Pipe`s. A pipe delivers segments in order, each after a delay drawn for its link.
What can go wrong, all of it per direction:

- a *cut* link keeps segments back and delivers them, in order, when it heals, as retransmission
  does; a connect over a cut link waits and tries again, as a lost SYN does. A cut may concern one
  listener's port only: heartbeats die while replication lives, or the other way round;
- a *stalled* stream is kept back while new ones over the same link work: what was asked on it
  arrives seconds late, when its sender has long given up and asked again elsewhere;
- a *slow* link draws from another range of delays;
- a *reset* drops what is still under way and then closes; a *trap* lets half of the next frame
  through before it does;
- a *forgotten* stream is gone at one end, and the other end does not notice;
- a machine that *vanishes* (power cut) says nothing at all: its peers keep half-open streams, and
  find out only when they send something after it is back, or by their own timeouts;
- *pieces*: bytes that were sent at once may arrive in two; on a *dribbling* link one by one; on a
  *clotting* link several sends arrive as one.

When a process dies, its kernel closes its streams: the other end sees the close after all bytes
that were sent before it. A connect to a machine without the process is refused.

Invariant `StreamOrder`: what arrives on one direction of one stream is a prefix of what was sent,
in order, each byte once, and arrives at the process that held the stream, never at its successor.
"""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from tidelog.env.effects import CloseReason
from tidelog.env.prng import Prng
from tidelog.sim.engine.timeline import Timeline

ANY_PORT: Final = 0
USUAL_DELAY_MS: Final = (0, 1)
DRIBBLE_BYTES: Final = 48
"""So many bytes of a send come alone on a dribbling link; the rest comes in as many pieces."""
SYN_RETRY_MS: Final = (1000, 2000, 4000, 8000)
"""Pauses between attempts to connect to a machine that does not answer at all."""


@dataclass(slots=True, eq=False)
class Pipe:
    """One direction of a stream, seen from its sender."""

    source: str
    target: str
    # The connection's id at the receiver.
    target_id: int
    # Of the listener that was connected to, in both directions.
    port: int = 0
    # When the newest segment arrives; later ones must not overtake it.
    last_arrival: int = 0
    # What is under way, in order, with the time of its arrival.
    under_way: deque[tuple[int, bytes | CloseReason]] = field(default_factory=deque)
    # What a cut keeps back, in order: bytes, or the reason of a close.
    held: list[bytes | CloseReason] = field(default_factory=list)
    # The opposite direction.
    reverse: "Pipe" = field(init=False)


class Machine(Protocol):
    """What the network must know of a host or client."""

    name: str
    ends: dict[int, Pipe]
    """The open streams, by connection id: each as the direction that begins here."""

    @property
    def powered(self) -> bool:
        """Whether there is a kernel that answers."""

    @property
    def listening(self) -> bool:
        """Whether there is a process that accepts connections."""

    def new_connection_id(self) -> int:
        """An id for a connection that is about to be accepted."""

    def on_opened(self, connection_id: int, peer: str, port: int) -> None:
        """A peer connected; its stream is among the `ends`."""

    def on_bytes(self, connection_id: int, data: bytes) -> None:
        """Bytes arrived."""

    def on_closed(self, connection_id: int, reason: CloseReason) -> None:
        """The stream ended; it is not among the `ends` any more."""


class Network:
    """All streams between all machines."""

    def __init__(self, timeline: Timeline, prng: Prng) -> None:
        self._timeline = timeline
        self._prng = prng
        self.machines: dict[str, Machine] = {}
        # Directed links, as (source, target, port or `ANY_PORT`), that keep everything back.
        self.cuts: set[tuple[str, str, int]] = set()
        # Directed links with a delay range of their own.
        self.delays: dict[tuple[str, str], tuple[int, int]] = {}
        # Pipes that keep everything back though their link works, in the order of their stalling.
        self.stalled: dict[Pipe, None] = {}
        # Directed links whose next send of more than a byte ends in the middle.
        self.traps: set[tuple[str, str]] = set()
        # Directed links that deliver byte by byte.
        self.dribbles: set[tuple[str, str]] = set()
        # Directed links that deliver at multiples of so many ms, all that came meanwhile at once.
        self.clots: dict[tuple[str, str], int] = {}
        # Percentage of sends that arrive in pieces.
        self.split_percent = 0
        # How often each fault met a stream: what says that it mattered.
        self.effects: Counter[str] = Counter()
        # Pipes with something kept back, in order of the first.
        self._held: dict[Pipe, None] = {}
        # Pipes whose segments fell on a machine without power: answered when it is back.
        self._unanswered: dict[str, dict[Pipe, None]] = {}

    # Connecting ----------------------------------------------------------------------------

    def connect(
        self,
        source: tuple[str, int],
        target: tuple[str, int],
        wanted: Callable[[], bool],
        done: Callable[[bool], None],
        attempt: int = 0,
    ) -> None:
        """Connects (machine, connection id) to (machine, port).

        `done` receives whether the connection is up or refused; it is not called while nothing
        answers; `wanted` says whether the opener is still there.
        """

        def arrive() -> None:
            if not wanted():
                return
            machine = self.machines[target[0]]
            link = (source[0], target[0])
            if self._is_cut(link, target[1]) or not machine.powered:
                if attempt < len(SYN_RETRY_MS):
                    pause = SYN_RETRY_MS[attempt]
                    self._timeline.at(
                        pause, lambda: self.connect(source, target, wanted, done, attempt + 1)
                    )
                return
            if machine.listening:
                self._open(source, machine, target[1])
            done(machine.listening)

        self._timeline.at(self._prng.between(*self._delay_of(source[0], target[0])), arrive)

    def _open(self, source: tuple[str, int], machine: Machine, port: int) -> None:
        accepted_id = machine.new_connection_id()
        forth = Pipe(source[0], machine.name, accepted_id, port)
        back = Pipe(machine.name, *source, port)
        forth.reverse, back.reverse = back, forth
        self.machines[source[0]].ends[source[1]] = forth
        machine.ends[accepted_id] = back
        machine.on_opened(accepted_id, source[0], port)

    def _is_cut(self, link: tuple[str, str], port: int) -> bool:
        """Whether a packet of a handshake is lost in one of the directions."""
        return any(
            (*way, each) in self.cuts for way in (link, link[::-1]) for each in (ANY_PORT, port)
        )

    # Sending -------------------------------------------------------------------------------

    def send(self, pipe: Pipe, data: bytes) -> None:
        """Sends bytes; with luck in one piece."""
        link = (pipe.source, pipe.target)
        if link in self.traps and len(data) > 1:
            self.traps.discard(link)
            self.effects["trap"] += 1
            self._transmit(pipe, data[: self._prng.between(1, len(data) - 1)])
            self.break_stream(pipe)
            return
        if link in self.dribbles:
            self.effects["dribble"] += 1
            data = self._dribble(pipe, data)
        if self.split_percent and len(data) > 1 and self._prng.chance(self.split_percent, 100):
            cut = self._prng.between(1, len(data) - 1)
            self._transmit(pipe, data[:cut])
            data = data[cut:]
        self._transmit(pipe, data)

    def _dribble(self, pipe: Pipe, data: bytes) -> bytes:
        """Sends all but the last piece; returns that."""
        alone = min(len(data) - 1, DRIBBLE_BYTES)
        for position in range(alone):
            self._transmit(pipe, data[position : position + 1])
        step = max(1, (len(data) - alone) // DRIBBLE_BYTES)
        position = alone
        while len(data) - position > step:
            self._transmit(pipe, data[position : position + step])
            position += step
        return data[position:]

    def break_stream(self, pipe: Pipe) -> None:
        """Resets both ends, each after what is on its way to it."""
        self._transmit(pipe, CloseReason.ERROR)
        self._transmit(pipe.reverse, CloseReason.ERROR)

    def forget(self, pipe: Pipe) -> None:
        """The stream is gone at its target, which notices a reset; its source does not."""
        if self.is_open(pipe):
            self._end(pipe, CloseReason.ERROR)

    def close(self, pipe: Pipe) -> None:
        """Ends the stream after what was sent has arrived."""
        self._transmit(pipe, CloseReason.PEER)

    def reset(self, pipe: Pipe) -> None:
        """Ends the stream at once: what is under way is lost."""
        pipe.under_way.clear()
        pipe.held.clear()
        self._transmit(pipe, CloseReason.ERROR)

    def _delay_of(self, source: str, target: str) -> tuple[int, int]:
        return self.delays.get((source, target), USUAL_DELAY_MS)

    def _transmit(self, pipe: Pipe, item: bytes | CloseReason) -> None:
        delay = self._prng.between(*self._delay_of(pipe.source, pipe.target))
        arrival = max(self._timeline.now + delay, pipe.last_arrival)
        if self.clots and (pipe.source, pipe.target) in self.clots:
            arrival += -arrival % self.clots[pipe.source, pipe.target]
        pipe.last_arrival = arrival
        pipe.under_way.append((arrival, item))
        self._timeline.at(arrival - self._timeline.now, lambda: self._arrive(pipe))

    def _arrive(self, pipe: Pipe) -> None:
        # Two events of one instant run in any order: each takes what is first, not its own.
        if not pipe.under_way or pipe.under_way[0][0] > self._timeline.now:
            return
        _, item = pipe.under_way.popleft()
        if self.clots and (pipe.source, pipe.target) in self.clots:
            item = self._join(pipe, item)
        if self._keeps_back(pipe):
            pipe.held.append(item)
            self._held[pipe] = None
            self.effects["held"] += 1
            return
        self._hand_over(pipe, item)

    def _join(self, pipe: Pipe, item: bytes | CloseReason) -> bytes | CloseReason:
        """One read of everything that is there."""
        while (
            isinstance(item, bytes)
            and pipe.under_way
            and pipe.under_way[0][0] <= self._timeline.now
        ):
            more = pipe.under_way[0][1]
            if not isinstance(more, bytes):
                break
            self.effects["clot"] += 1
            item += more
            pipe.under_way.popleft()
        return item

    def _keeps_back(self, pipe: Pipe) -> bool:
        # Most of the time nothing is cut at all.
        return (
            (bool(self.cuts) and (pipe.source, pipe.target, ANY_PORT) in self.cuts)
            or (bool(self.stalled) and pipe in self.stalled)
            or (bool(self.cuts) and (pipe.source, pipe.target, pipe.port) in self.cuts)
            # What was kept back goes first.
            or bool(pipe.held)
        )

    def _hand_over(self, pipe: Pipe, item: bytes | CloseReason) -> None:
        machine = self.machines[pipe.target]
        if not machine.powered:
            self._unanswered.setdefault(pipe.target, {})[pipe] = None
            return
        if not self.is_open(pipe):
            if isinstance(item, bytes):
                # The kernel knows no such connection: a reset goes back.
                self._transmit(pipe.reverse, CloseReason.ERROR)
            return
        if isinstance(item, bytes):
            machine.on_bytes(pipe.target_id, item)
            return
        self._end(pipe, item)

    def _end(self, pipe: Pipe, reason: CloseReason) -> None:
        machine = self.machines[pipe.target]
        del machine.ends[pipe.target_id]
        machine.on_closed(pipe.target_id, reason)

    def is_open(self, pipe: Pipe) -> bool:
        """Whether its receiver still has this very stream: a process that was started anew gives
        its connections the same ids again."""
        end = self.machines[pipe.target].ends.get(pipe.target_id)
        return end is not None and end is pipe.reverse

    # Faults --------------------------------------------------------------------------------

    def cut(self, source: str, target: str, port: int = ANY_PORT) -> None:
        """Nothing that `source` sends reaches `target`, over all or one port, until healed."""
        self.cuts.add((source, target, port))

    def heal(self, source: str, target: str, port: int = ANY_PORT) -> None:
        """Ends a cut; what was kept back arrives at once, in order."""
        self.cuts.discard((source, target, port))
        self.release()

    def stall(self, pipe: Pipe) -> None:
        """Keeps back what one end sends, and lets all other streams be."""
        self.stalled[pipe] = None

    def unstall(self, pipes: list[Pipe]) -> None:
        """Lets streams go on."""
        for pipe in pipes:
            self.stalled.pop(pipe, None)
        self.release()

    def release(self) -> None:
        """Delivers what nothing keeps back any more."""
        for pipe in list(self._held):
            held, pipe.held = pipe.held, []
            if self._keeps_back(pipe):
                pipe.held = held
                continue
            del self._held[pipe]
            for item in held:
                self._hand_over(pipe, item)

    def power_up(self, name: str) -> None:
        """A machine is back: it resets every stream on which a peer still sends to it."""
        for pipe in self._unanswered.pop(name, {}):
            self._transmit(pipe.reverse, CloseReason.ERROR)
