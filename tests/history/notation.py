"""Histories written by hand: one line per operation, in the order of completion."""

from tidelog.sim.evidence.history import Key, Kind, Op, Outcome, Polled, Sent

K = Key("t", 0)
L = Key("t", 1)


class Notation:
    """Builds a history. Without times given, operations follow each other without overlap."""

    def __init__(self) -> None:
        self.ops: list[Op] = []

    def _times(self, at: tuple[int, int] | None) -> dict[str, int]:
        begun, ended = at or (10 * len(self.ops) + 1, 10 * len(self.ops) + 2)
        return {"invoked_at": begun, "completed_at": ended}

    def send(
        self,
        *sent: tuple[Key, int, str],
        who: str = "p",
        outcome: Outcome = Outcome.OK,
        at: tuple[int, int] | None = None,
    ) -> "Notation":
        """Values and where they landed."""
        values = tuple(Sent(*one) for one in sent)
        op = Op(len(self.ops), who, Kind.SEND, outcome, sent=values, **self._times(at))
        self.ops.append(op)
        return self

    def poll(
        self,
        *polled: tuple[Key, int, str],
        who: str = "c",
        outcome: Outcome = Outcome.OK,
        rebalanced: frozenset[Key] = frozenset(),
        at: tuple[int, int] | None = None,
    ) -> "Notation":
        """What was read, in order."""
        op = Op(
            len(self.ops),
            who,
            Kind.POLL,
            outcome,
            polled=_by_key(polled),
            rebalanced=rebalanced,
            **self._times(at),
        )
        self.ops.append(op)
        return self

    def txn(
        self,
        sent: list[tuple[Key, int, str]],
        polled: list[tuple[Key, int, str]],
        *,
        who: str = "x",
        outcome: Outcome = Outcome.OK,
        at: tuple[int, int] | None = None,
    ) -> "Notation":
        """Sends and polls that are one."""
        op = Op(
            len(self.ops),
            who,
            Kind.TXN,
            outcome,
            sent=tuple(Sent(*one) for one in sent),
            polled=_by_key(tuple(polled)),
            **self._times(at),
        )
        self.ops.append(op)
        return self

    def assign(self, *keys: Key, who: str = "c", sought: bool = False) -> "Notation":
        """A consumer's assignment."""
        op = Op(
            len(self.ops),
            who,
            Kind.ASSIGN,
            Outcome.OK,
            assigned=keys,
            sought=sought,
            **self._times(None),
        )
        self.ops.append(op)
        return self


def _by_key(polled: tuple[tuple[Key, int, str], ...]) -> dict[Key, tuple[Polled, ...]]:
    found: dict[Key, tuple[Polled, ...]] = {}
    for key, offset, value in polled:
        found[key] = (*found.get(key, ()), Polled(offset, value))
    return found
