"""What came of one seed, whichever tier it ran in."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Outcome:
    """The result of one run."""

    seed: int
    violation: str | None = None
    """The property and what happened; `None` for a clean run."""
    events: int = 0
    virtual_ms: int = 0
    acknowledged: int = 0
    """Records that were acknowledged, or metadata batches that were committed."""
    healed_ms: int = -1
    """How long it took after the end of the faults until everything was well."""
    trace_hash: str = ""
    faults: Counter[str] = field(default_factory=Counter)
    """How often each kind struck."""
    fired: Counter[str] = field(default_factory=Counter)
    """How often it met something."""
    marks: tuple[str, ...] = ()
    """The rare states that were reached, by name."""
    election_ms: tuple[int, ...] = ()
    """For each partition that lost its leader's process, how long until it had one that leads."""
    unavailable_ms: tuple[int, ...] = ()
    """For each time that a partition's clients had to wait long, how long until one got an ack."""

    @contextmanager
    def judged(self) -> Iterator[None]:
        """What runs inside ends here: an assertion that fails is the violation, and so is
        any other exception, for a node raises none."""
        try:
            yield
        except AssertionError as fault:
            self.violation = str(fault) or repr(fault)
        except Exception as fault:
            self.violation = f"NoException: {fault!r}"

    @property
    def violated(self) -> str | None:
        """The name of the property."""
        if self.violation is None:
            return None
        name, separator, _ = self.violation.partition(":")
        return name if separator and name.isidentifier() else "Assertion"
