"""Bugs that other logs had, each as a scenario that must go well here: r01, r02, ...

`docs/protocol/regressions.md` has the table. A scenario is a function whose name begins with its
number; `catalogue.py` has them all. Its ablations are in `tidelog.sim.ablations`: without the
safeguard the same scenario must fail.
"""
