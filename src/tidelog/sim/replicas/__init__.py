"""Replication alone: a few brokers' replicas, a metadata log, and links.

A case that a whole cluster would meet only by luck is made here step by step: who sends when,
what is kept back, who reads the metadata late.
"""
