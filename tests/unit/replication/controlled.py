"""The metadata of the stage of replication, decided by the real controller."""

from tidelog.sim.replicas.controlled import ControlledFeed

__all__ = ["ControlledFeed"]
