"""What must hold in every run: one module per property, named after the property.

Kinds, by when they look:

- after each event that began a term, moved a high watermark or changed an ISR, at that leader
  (`LeaderChecker`);
- at each metadata image that a node comes to (`ImageChecker`);
- every so often, at all nodes (`SweepChecker`);
- at the end, when all faults are over and everything has been read once more (`EndChecker`).

A checker raises `Violation` with the property's name and the values that show it.
"""
