"""Replication health: the figures that the events of the nodes give."""
