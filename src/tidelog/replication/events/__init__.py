"""The events of replication: what leaders, followers and their logs decide, and what is measured.

Where a peer's error code is the reason, the field `reason` is the `ErrorCode` itself. Fields with a
default of `None` are absent from lines and records.
"""
