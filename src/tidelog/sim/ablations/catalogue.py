"""Every safeguard that can be switched off, package by package."""

from typing import Final

from tidelog.sim.ablations import controller, log, quorum, replication
from tidelog.sim.ablations.safeguard import Safeguard

SAFEGUARDS: Final[tuple[Safeguard, ...]] = (
    *replication.SAFEGUARDS,
    *log.SAFEGUARDS,
    *controller.SAFEGUARDS,
    *quorum.SAFEGUARDS,
)
"""The rows of the kill table."""
