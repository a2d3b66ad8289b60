"""What a safeguard is, how it is switched off, and how many seeds it takes until that shows."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from tidelog.sim.campaign.seeds import CLUSTER, QUORUM, REGRESSION, run_seed
from tidelog.sim.report.outcome import Outcome

Patch = tuple[Any, str, Any]
"""The class or module that has it, its name there, what takes its place."""

Original = Callable[..., Any]
"""What a replacement stands in front of."""

REGRESSION_SEEDS: Final = 3
"""A regression scenario is the same whatever the seed, but for the delays inside of it."""

_CLUMSY: Final = tuple(
    f"NoException: {kind}" for kind in ("TypeError", "AttributeError", "NameError")
)
"""A replacement that does not fit its place any more shows nothing."""

SET_UP: Final = "Setup"
"""The complaint of a regression scenario that could not get to its case; that is not a kill."""


@dataclass(frozen=True, slots=True)
class Safeguard:
    """One safeguard and its absence."""

    name: str
    prevents: str
    tier: str
    scenario: str
    """The number of a regression scenario, or the name of a family."""
    patches: tuple[Patch, ...] = ()

    def replaced(self, target: Any, name: str, replacement: Any) -> "Safeguard":
        """Its absence takes something else in the place of a name of a class or module."""
        return replace(self, patches=(*self.patches, (target, name, replacement)))

    def wrapped(self, target: Any, name: str, wrapper: Callable[..., Any]) -> "Safeguard":
        """The same with a function that is given the replaced one first."""
        original = getattr(target, name)
        return self.replaced(
            target, name, lambda *args, **options: wrapper(original, *args, **options)
        )


@dataclass(frozen=True, slots=True)
class Kill:
    """What running without a safeguard showed."""

    safeguard: Safeguard
    seeds: int
    """Seeds run; the last one failed, unless it survived."""
    violated: str | None
    """The property that broke; `None` when nothing did."""


def guard(number: str, name: str, prevents: str) -> Safeguard:
    """One that the regression scenario of this number needs."""
    return Safeguard(name, prevents, REGRESSION, number)


def guard_of_cluster(scenario: str, name: str, prevents: str) -> Safeguard:
    """One that random runs of whole nodes miss."""
    return Safeguard(name, prevents, CLUSTER, scenario)


def guard_of_quorum(name: str, prevents: str) -> Safeguard:
    """One that random runs of the metadata quorum miss."""
    return Safeguard(name, prevents, QUORUM, "all")


@contextmanager
def switched_off(safeguard: Safeguard) -> Iterator[None]:
    """Takes the safeguard away for the length of a block."""
    missing = object()
    kept = [target.__dict__.get(name, missing) for target, name, _ in safeguard.patches]
    for target, name, replacement in safeguard.patches:
        assert hasattr(target, name), f"{safeguard.name}: {target} has no {name} to replace"
        setattr(target, name, replacement)
    try:
        yield
    finally:
        for (target, name, _), own in zip(safeguard.patches, kept, strict=True):
            if own is missing:
                delattr(target, name)
            else:
                setattr(target, name, own)


def _is_kill(outcome: Outcome) -> bool:
    """Whether a property broke, and not the set-up or the replacement itself."""
    if outcome.violation is None or outcome.violated == SET_UP:
        return False
    return not outcome.violation.startswith(_CLUMSY)


def ablate(safeguard: Safeguard, seeds: range) -> Kill:
    """Runs seeds without the safeguard until one fails."""
    if safeguard.tier == REGRESSION:
        seeds = seeds[:REGRESSION_SEEDS]
    with switched_off(safeguard):
        for count, seed in enumerate(seeds, 1):
            outcome = run_seed(safeguard.tier, safeguard.scenario, seed)
            if _is_kill(outcome):
                return Kill(safeguard, count, outcome.violated)
    return Kill(safeguard, len(seeds), None)
