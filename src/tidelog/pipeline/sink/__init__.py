"""The topic sink: rows to records, at least once or exactly once."""
