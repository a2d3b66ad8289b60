"""The stage of the replication rooms alone: a few brokers' replicas, a metadata log, and links.

A story that a whole cluster would tell only by luck is told here step by step: who speaks when,
what is kept back, who reads the metadata late.
"""
