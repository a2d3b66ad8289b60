"""The other driver of the node: virtual time, a simulated network, memory disks, one seed.

`World` runs any number of real `Node` objects against each other and against simulated clients,
with real wire bytes and real file formats, on one event queue ordered by (time, seeded tie-break,
sequence). The same seed gives the same run.
"""
