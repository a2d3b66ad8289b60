"""Batches with one control record, as quorum leaders write them."""

from tidelog.records.batch import build_batch
from tidelog.records.control import ControlType, control_record


def build_control_batch(
    control_type: ControlType,
    value: bytes,
    timestamp: int,
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """A batch with one control record of the quorum (no producer)."""
    return build_batch(
        [control_record(control_type, value, timestamp)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        is_control=True,
    )
