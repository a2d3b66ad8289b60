"""Bugs that other logs had, each as a named story that must go well here: r01, r02, ...

`docs/protocol/regressions.md` has the table. A story is a function whose name begins with its
number; `stories.py` knows them all. Its negative twins are in `tidelog.sim.ablations`: without
the safeguard the same story must fail.
"""
