"""What must hold in every run: one module per property, named after the property.

Three kinds, by when they look:

- *after each event* of a node, at that node (`EventChecker`);
- *every so often*, at all nodes (`SweepChecker`);
- *at the end*, when all faults are over and everything has been read once more (`EndChecker`).

A checker raises `Violation` with the property's name and the values that show it.
"""
