"""The scripted metadata of the stage of replication."""

from tidelog.sim.replicas.feed import MetadataFeed, topic_id_of

__all__ = ["MetadataFeed", "topic_id_of"]
