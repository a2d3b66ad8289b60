"""Safeguards of a replica's log, and what it is worth without them."""

from collections.abc import Callable
from typing import Any, Final

from tidelog.log import replay
from tidelog.log.directory import LogDirectory
from tidelog.log.log import Log
from tidelog.log.producer_state import ProducerStates
from tidelog.sim.ablations.safeguard import of_cluster, of_story


def _nothing(*_: Any, **__: Any) -> None:
    """Does nothing."""


def _load_as_clean(load: Callable[..., None]) -> Callable[..., None]:
    """Every stop counts as a clean one."""
    return lambda self, clean, wall_ms: load(self, True, wall_ms)


SAFEGUARDS: Final = (
    of_story(
        "r06",
        "epoch-of-new-leader",
        "keeping uncommitted records of a later epoch",
        (Log, "assign_epoch", lambda *_: False),
    ),
    of_cluster(
        "links",
        "idempotence",
        "a retry appended twice",
        (ProducerStates, "admit", lambda *_: None),
    ),
    of_cluster(
        "kills",
        "dedup-windows",
        "refusing a retry after a restart",
        (replay, "_complete_windows", _nothing),
    ),
    of_cluster(
        "power-cuts",
        "recovery-after-unclean-stop",
        "trusting a torn log",
        (LogDirectory, "_load_logs", _load_as_clean(LogDirectory._load_logs)),
    ),
)
"""Of recovery, epochs, producers and devices."""
