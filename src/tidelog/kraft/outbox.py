"""Holds back what the quorum sends until the election state behind it is durable.

A vote is a promise, and so is every message of a new epoch: a replica that forgets it in a crash
could promise something else to another one. Kafka therefore writes `quorum-state` before it goes
on. Here the write is an effect that completes later, so the *outputs* wait: each is sealed with the
sequence of the newest state write at that moment, and leaves when that write is confirmed
(*DurableBeforeSent*). Outputs keep their order, so one that waits makes all later ones wait; that
happens only around elections.
"""

from collections import deque
from typing import NamedTuple

from tidelog.kraft.messages import Output


class _Sealed(NamedTuple):
    """An output and the state write that it must follow."""

    sequence: int
    output: Output


class Outbox:
    """Outputs in order: first open, then sealed, then taken."""

    def __init__(self) -> None:
        # Added while the current input is handled; the state may still change.
        self._open: list[Output] = []
        # Waits for its state write, oldest first; sequences never fall.
        self._sealed: deque[_Sealed] = deque()

    def add(self, output: Output) -> None:
        """Adds an output."""
        self._open.append(output)

    def seal(self, sequence: int) -> None:
        """The input is handled; its outputs may leave once state write `sequence` is durable."""
        assert not self._sealed or self._sealed[-1].sequence <= sequence, (
            f"DurableBeforeSent: sealed with {sequence} after {self._sealed[-1].sequence}"
        )
        self._sealed.extend(_Sealed(sequence, output) for output in self._open)
        self._open.clear()

    def take(self, durable_sequence: int) -> list[Output]:
        """What may leave now, in order."""
        ready: list[Output] = []
        while self._sealed and self._sealed[0].sequence <= durable_sequence:
            ready.append(self._sealed.popleft().output)
        return ready

    @property
    def is_sealed(self) -> bool:
        """Whether every output so far is sealed; true between two inputs."""
        return not self._open
