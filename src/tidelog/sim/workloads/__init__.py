"""Simulated clients: state machines that the world calls back, never a loop that waits.

They speak real wire bytes, keep metadata, time out, retry and pipeline as real clients do, and
write what they did into a `History`.
"""
