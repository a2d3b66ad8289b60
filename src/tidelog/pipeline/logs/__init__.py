"""Log directories: their layout, a scan of their batches, and what an audit compares."""
