"""Safeguards, each with a way to switch it off: the proof that the checkers would miss it.

An ablation replaces functions or properties of the production code for the length of a block and
runs what the safeguard is for: a scenario of `tidelog.sim.regressions`, or seeds of a family. A
checker, or an assertion of the product, has to complain; the number of seeds that took is the
strength of the net at that place.

The replacements live here and not in the product: a switch in production code could be thrown.

| module | safeguards of |
| --- | --- |
| `replication` | high watermark, ISR, fetching, truncating, acknowledging |
| `log` | recovery, epochs, producers, devices |
| `cleaning` | compaction, retention |
| `moves` | replicas that go to another log directory |
| `controller` | elections, registrations, proposals |
| `quorum` | votes, the metadata log |
| `groups` | committed offsets |
| `transactions` | transactions in partitions and groups |
| `sharing` | records that share groups have |
| `security` | logins, rights |
"""

from typing import Final

from tidelog.sim.ablations import (
    cleaning,
    controller,
    groups,
    log,
    moves,
    quorum,
    replication,
    security,
    sharing,
    transactions,
)
from tidelog.sim.ablations.safeguard import Kill, Safeguard, ablate, switched_off

SAFEGUARDS: Final[tuple[Safeguard, ...]] = (
    *replication.SAFEGUARDS,
    *log.SAFEGUARDS,
    *cleaning.SAFEGUARDS,
    *moves.SAFEGUARDS,
    *controller.SAFEGUARDS,
    *quorum.SAFEGUARDS,
    *groups.SAFEGUARDS,
    *transactions.SAFEGUARDS,
    *sharing.SAFEGUARDS,
    *security.SAFEGUARDS,
)
"""The rows of the kill table."""

__all__ = ["SAFEGUARDS", "Kill", "Safeguard", "ablate", "switched_off"]
