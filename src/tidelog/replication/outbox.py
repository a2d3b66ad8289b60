"""The package's outputs in the order of its decisions, and the tokens that tie answers to them."""

from tidelog.replication.messages import Output, Token


class Outbox:
    """Shared by all parts of the package; drained by `Replicas.take_outputs`."""

    __slots__ = ("_last_token", "_pending")

    def __init__(self) -> None:
        # Outputs since the last `take`.
        self._pending: list[Output] = []
        # The newest token given out; they count from 1.
        self._last_token: Token = 0

    def emit(self, output: Output) -> None:
        """Adds one output."""
        self._pending.append(output)

    def new_token(self) -> Token:
        """A token that was never used before."""
        self._last_token += 1
        return self._last_token

    def take(self) -> list[Output]:
        """Everything since the last call."""
        pending = self._pending
        self._pending = []
        return pending

    def __len__(self) -> int:
        return len(self._pending)
