"""Many seeds: one process or several, one report."""

from tidelog.sim.campaign.seeds import run_seed

__all__ = ["run_seed"]
