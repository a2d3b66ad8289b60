"""Replicas move between disks under faults, and the checkers of whole nodes complain of nothing."""

from tidelog.sim.campaign.seeds import CLUSTER, run_seed


def test_moves_begin_end_and_are_given_up() -> None:
    """Within a few seeds, whatever these draw: their number is the price of a test."""
    wanted = {f"replication.Move{what}" for what in ("Began", "Ended", "GivenUp")}
    seen: set[str] = set()
    for seed in range(30, 38):
        outcome = run_seed(CLUSTER, "several-disks", seed)
        assert outcome.violation is None, outcome.violation
        seen |= wanted & set(outcome.marks)
        if seen == wanted:
            return
    raise AssertionError(f"never: {wanted - seen}")
