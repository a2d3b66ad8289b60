"""Simulated streams: what two ends of a TCP connection see of each other.

A stream is two `Pipe`s. A pipe delivers segments in order, each after a delay drawn for its link.
What can go wrong, all of it per direction:

- a *cut* link keeps segments back and delivers them, in order, when it heals, as retransmission
  does; a connect over a cut link waits and tries again, as a lost SYN does;
- a *slow* link draws from another range of delays;
- a *reset* drops what is still under way, perhaps in the middle of a frame, and then closes;
- a machine that *vanishes* (power cut) says nothing at all: its peers keep half-open streams, and
  find out only when they send something after it is back, or by their own timeouts;
- *segments*: bytes that were sent at once may arrive in pieces.

When a process dies, its kernel closes its streams: the other end sees the close after all bytes
that were sent before it. A connect to a machine without the process is refused.

Invariant `StreamOrder`: what arrives on one direction of one stream is a prefix of what was sent,
in order, each byte once.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from tidelog.env.effects import CloseReason
from tidelog.env.prng import Prng

USUAL_DELAY_MS: Final = (0, 1)
SYN_RETRY_MS: Final = (1000, 2000, 4000, 8000)
"""Pauses between attempts to connect to somebody who does not answer at all."""


@dataclass(slots=True, eq=False)
class Pipe:
    """One direction of a stream, seen from its sender."""

    source: str
    target: str
    # The connection's id at the receiver.
    target_id: int
    # When the newest segment arrives; later ones must not overtake it.
    last_arrival: int = 0
    # What is under way, in order, with the time of its arrival.
    under_way: deque[tuple[int, bytes | CloseReason]] = field(default_factory=deque)
    # What a cut keeps back, in order: bytes, or the reason of a close.
    held: list[bytes | CloseReason] = field(default_factory=list)
    # The opposite direction.
    reverse: "Pipe | None" = None


@dataclass(slots=True, eq=False)
class End:
    """One end of a stream, held by a host or client under its connection id."""

    out: Pipe


class Machine(Protocol):
    """What the network must know of a host or client."""

    name: str
    ends: dict[int, End]
    """The open streams, by connection id."""

    @property
    def powered(self) -> bool:
        """Whether there is a kernel that answers."""

    @property
    def listening(self) -> bool:
        """Whether there is a process that accepts connections."""

    def new_connection_id(self) -> int:
        """An id for a connection that is about to be accepted."""

    def on_opened(self, connection_id: int, peer: str, port: int) -> None:
        """A peer connected; the `End` is there."""

    def on_bytes(self, connection_id: int, data: bytes) -> None:
        """Bytes arrived."""

    def on_closed(self, connection_id: int, reason: CloseReason) -> None:
        """The stream ended; its `End` is gone already."""


class Network:
    """All streams between all machines."""

    def __init__(self, at: Callable[[int, Callable[[], None]], None], prng: Prng) -> None:
        # Runs an action after a delay.
        self._at = at
        self._prng = prng
        # Time of the world; set before each event.
        self.now = 0
        self.machines: dict[str, Machine] = {}
        # Directed links, as (source, target), that keep everything back.
        self.cuts: set[tuple[str, str]] = set()
        # Directed links with a delay range of their own.
        self.delays: dict[tuple[str, str], tuple[int, int]] = {}
        # Percentage of sends that arrive in pieces.
        self.split_percent = 0
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

        `done` hears whether the connection is up or refused, or nothing at all while nobody
        answers; `wanted` says whether the opener is still there.
        """

        def arrive() -> None:
            if not wanted():
                return
            machine = self.machines[target[0]]
            link = (source[0], target[0])
            if link in self.cuts or link[::-1] in self.cuts or not machine.powered:
                if attempt < len(SYN_RETRY_MS):
                    pause = SYN_RETRY_MS[attempt]
                    self._at(pause, lambda: self.connect(source, target, wanted, done, attempt + 1))
                return
            if machine.listening:
                self._open(source, machine, target[1])
            done(machine.listening)

        self._at(self._prng.between(*self._delay_of(source[0], target[0])), arrive)

    def _open(self, source: tuple[str, int], machine: Machine, port: int) -> None:
        accepted_id = machine.new_connection_id()
        forth = Pipe(source[0], machine.name, accepted_id)
        back = Pipe(machine.name, *source)
        forth.reverse, back.reverse = back, forth
        self.machines[source[0]].ends[source[1]] = End(forth)
        machine.ends[accepted_id] = End(back)
        machine.on_opened(accepted_id, source[0], port)

    # Sending -------------------------------------------------------------------------------

    def send(self, end: End, data: bytes) -> None:
        """Sends bytes; with luck in one piece."""
        if self.split_percent and len(data) > 1 and self._prng.chance(self.split_percent, 100):
            cut = self._prng.between(1, len(data) - 1)
            self._transmit(end.out, data[:cut])
            data = data[cut:]
        self._transmit(end.out, data)

    def close(self, end: End, reason: CloseReason = CloseReason.PEER) -> None:
        """Ends the stream after what was sent has arrived."""
        self._transmit(end.out, reason)

    def reset(self, end: End) -> None:
        """Ends the stream at once: what is under way is lost."""
        pipe = end.out
        pipe.under_way.clear()
        pipe.held.clear()
        self._transmit(pipe, CloseReason.ERROR)

    def _delay_of(self, source: str, target: str) -> tuple[int, int]:
        return self.delays.get((source, target), USUAL_DELAY_MS)

    def _transmit(self, pipe: Pipe, item: bytes | CloseReason) -> None:
        delay = self._prng.between(*self._delay_of(pipe.source, pipe.target))
        arrival = pipe.last_arrival = max(self.now + delay, pipe.last_arrival)
        pipe.under_way.append((arrival, item))
        self._at(arrival - self.now, lambda: self._arrive(pipe))

    def _arrive(self, pipe: Pipe) -> None:
        # Two events of one instant run in any order: each takes what is first, not its own.
        if not pipe.under_way or pipe.under_way[0][0] > self.now:
            return
        _, item = pipe.under_way.popleft()
        if (pipe.source, pipe.target) in self.cuts:
            pipe.held.append(item)
            self._held[pipe] = None
            return
        self._hand_over(pipe, item)

    def _hand_over(self, pipe: Pipe, item: bytes | CloseReason) -> None:
        machine = self.machines[pipe.target]
        if not machine.powered:
            self._unanswered.setdefault(pipe.target, {})[pipe] = None
            return
        if pipe.target_id not in machine.ends:
            if isinstance(item, bytes):
                # The kernel knows no such connection: a reset goes back.
                self._refuse(pipe)
            return
        if isinstance(item, bytes):
            machine.on_bytes(pipe.target_id, item)
            return
        del machine.ends[pipe.target_id]
        machine.on_closed(pipe.target_id, item)

    def _refuse(self, pipe: Pipe) -> None:
        assert pipe.reverse is not None, f"{pipe.source} has half a stream"
        self._transmit(pipe.reverse, CloseReason.ERROR)

    # Faults --------------------------------------------------------------------------------

    def cut(self, source: str, target: str) -> None:
        """Nothing that `source` sends reaches `target` until the link is mended."""
        self.cuts.add((source, target))

    def mend(self, source: str, target: str) -> None:
        """Ends a cut; what was kept back arrives at once, in order."""
        self.cuts.discard((source, target))
        released = [pipe for pipe in self._held if (pipe.source, pipe.target) == (source, target)]
        for pipe in released:
            del self._held[pipe]
            held, pipe.held = pipe.held, []
            for item in held:
                self._hand_over(pipe, item)

    def power_up(self, name: str) -> None:
        """A machine is back: it resets every stream on which somebody still sends to it."""
        for pipe in self._unanswered.pop(name, {}):
            self._refuse(pipe)
