"""Replication health: figures made from the events of the nodes."""
