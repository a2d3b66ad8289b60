"""Ports between the core and the world: disk, trace, seeded numbers, and the core's own verbs."""
