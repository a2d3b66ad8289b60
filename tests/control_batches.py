"""Batches with one control record, as quorum leaders and transaction coordinators write them."""

import struct

from tidelog.records.batch import build_batch
from tidelog.records.control import ControlType, EndTxnMarker, control_record


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


def build_end_txn_marker(
    marker: EndTxnMarker, producer_id: int, producer_epoch: int, timestamp: int
) -> bytes:
    """The batch that ends a transaction in one partition."""
    control_type = ControlType.COMMIT if marker.is_commit else ControlType.ABORT
    value = struct.pack(">hi", 0, marker.coordinator_epoch)
    return build_batch(
        [control_record(control_type, value, timestamp)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_control=True,
        is_transactional=True,
    )
