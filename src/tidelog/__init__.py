"""Tidelog: Kafka's replicated log in Python.

The package is laid out in layers that import one way only; `ARCHITECTURE.md` has the map.
"""

__version__ = "0.1.0"
