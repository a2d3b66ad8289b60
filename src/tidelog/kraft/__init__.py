"""The metadata quorum (KRaft): election and replication of `__cluster_metadata-0`.

`quorum.py` is the facade; `messages.py` holds what goes through it. Theory and named properties:
`docs/protocol/kraft.md`.
"""
