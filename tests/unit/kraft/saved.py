"""Replicas with snapshots on their disks, for tests of what reads, serves and cleans them."""

from tests.unit.kraft.solo import Solo
from tidelog.config import QuorumConfig
from tidelog.kraft.messages import SnapshotId
from tidelog.kraft.snapshot_format import encode_snapshot, snapshot_name
from tidelog.model import METADATA_PARTITION


def snapshot_bytes(snapshot_id: SnapshotId, time_ms: int = 5) -> bytes:
    """A snapshot of a small state."""
    return encode_snapshot(snapshot_id, time_ms, [b"state of %d" % snapshot_id.end_offset])


def path_of(snapshot_id: SnapshotId, suffix: str = "") -> str:
    """Where its file is."""
    return f"{METADATA_PARTITION}/{snapshot_name(snapshot_id)}{suffix}"


def leader_with(
    *snapshots: tuple[int, int],
    log_epochs: tuple[int, ...] = (1,) * 9,
    log_start: int = 0,
    config: QuorumConfig | None = None,
) -> tuple[Solo, int]:
    """A leader with these snapshots, and the time; its log has one record more than given."""
    solo = Solo(log_epochs=log_epochs, config=config)
    solo.log.update_high_watermark(log_start)
    solo.log.maybe_raise_log_start_offset(log_start)
    for one in snapshots:
        solo.disk.replace(path_of(SnapshotId(*one)), snapshot_bytes(SnapshotId(*one)))
    solo.make_quorum()
    solo.lead()
    return solo, 1_000
