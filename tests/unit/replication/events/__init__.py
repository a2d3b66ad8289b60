"""Tests of the events of replication."""
