"""The log checker: what a history of sends and polls says about the logs behind it.

A pure function of a history, after the `kafka` workload of Jepsen: it knows nothing of nodes,
leaders or offsets other than what clients received, and so it judges any implementation. The
simulator feeds it with simulated clients, the process tests with real ones.

| module | finds |
| --- | --- |
| `index` | who wrote, who read, which offset has which values, the order of versions |
| `anomalies` | inconsistent-offsets, duplicate, lost-write, unseen, G1a, precommitted-read |
| `session_order` | skips and steps back, in and between operations; appends against real time |
| `cycles` | G0, G1c, and the same with session order and real time |
| `checker` | all of it together, and what is legal |
"""
