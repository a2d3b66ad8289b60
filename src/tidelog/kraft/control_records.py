"""The quorum's own records in the metadata log: the leader's changes and the voter sets.

A leader appends them (`append_control`); every replica obeys a voter set as soon as it is in its
log, and the former one again when the log is cut (`voters.py` has the theory). Each function here
brings the voter history, and everything that depends on the set that counts, in step with the log.
"""

from collections.abc import Sequence
from typing import Final

from tidelog.env.instant import Instant
from tidelog.kraft.committed import contiguous, read_own
from tidelog.kraft.core import QuorumCore
from tidelog.kraft.events import VotersChanged
from tidelog.kraft.leader import Leader
from tidelog.kraft.snapshot_format import ControlEntry, SnapshotContent
from tidelog.kraft.voters import BEFORE_THE_LOG, encode_voters, voter_records
from tidelog.log.values import AppendOrigin
from tidelog.records import control
from tidelog.records.batch import build_batch, iter_headers

HISTORY_READ_BYTES: Final = 1 << 20
"""How much of the log is read at a time to find its voter sets."""


def opening_records(core: QuorumCore, granting: Sequence[int]) -> list[ControlEntry]:
    """What a leader writes first. The voters that formatting left behind are in no log yet; an own
    address or version that has changed is reported at once."""
    value = control.leader_change_value(core.own_id, tuple(core.voters), granting)
    records = [ControlEntry(control.ControlType.LEADER_CHANGE, value)]
    if not core.is_dynamic or not core.is_voter:
        return records
    voters = {**core.voters, core.own_id: core.own_voter}
    if core.history.voters_offset == BEFORE_THE_LOG:
        records += voter_records(core.history.version, voters)
    elif core.voters[core.own_id] != core.own_voter:
        records.append(ControlEntry(control.ControlType.KRAFT_VOTERS, encode_voters(voters)))
    return records


def append_control(core: QuorumCore, entries: Sequence[ControlEntry], now: Instant) -> int:
    """Appends one control batch as the leader; returns its last offset."""
    wall_ms = now + core.wall_offset_ms
    records = [control.control_record(kind, value, wall_ms) for kind, value in entries]
    batch = build_batch(records, is_control=True)
    first = core.log.log_end_offset
    result = core.log.append_as_leader(batch, core.epoch, wall_ms, origin=AppendOrigin.RAFT)
    for offset, (kind, value) in enumerate(entries, first):
        _note_control(core, kind, value, offset)
    return result.last_offset


def on_appended(core: QuorumCore, records: bytes, end_offset: int) -> None:
    """A follower has appended these batches, up to `end_offset`: voter sets count at once."""
    for position, header in iter_headers(records):
        if header.is_control and header.last_offset < end_offset:
            for record in control.read_control_records(records, position):
                _note_control(core, record.control_type, record.value, record.offset)


def on_truncated(core: QuorumCore) -> None:
    """The log was cut: the voter set of its new end counts."""
    if core.history.truncate_to(core.log.log_end_offset):
        _on_voters(core, "truncated")


def read_history(core: QuorumCore, begin: int) -> None:
    """At the start: the voter sets in the log from `begin` on, where the loaded snapshot ends. What
    the log still has of the time before is in the snapshot."""
    offset = max(begin, core.log.log_start_offset)
    while offset < core.log.log_end_offset:
        read = read_own(core.log, offset, HISTORY_READ_BYTES, core.log.log_end_offset)
        on_appended(core, contiguous(read.chunks), read.next_offset)
        offset = read.next_offset


def on_snapshot_loaded(core: QuorumCore, content: SnapshotContent) -> None:
    """The version and the voters in a snapshot count, and everything below it is committed."""
    core.history.restart(content.snapshot_id.end_offset, content.control_entries)
    if content.control_entries:
        _on_voters(core, f"snapshot {content.snapshot_id}")


def _note_control(core: QuorumCore, control_type: int, value: bytes, offset: int) -> None:
    core.history.on_record(control_type, value, offset)
    if control_type == control.ControlType.KRAFT_VOTERS:
        # A new version comes in one batch with the voters that obey it.
        _on_voters(core, f"offset {offset}")


def _on_voters(core: QuorumCore, source: str) -> None:
    core.history.forget_before(core.log.log_start_offset)
    core.state_file.kraft_version = core.history.version
    core.addresses.on_voters_changed()
    if isinstance(core.role, Leader):
        core.role.on_voters_changed(core.voter_keys())
    core.env.trace.event(
        VotersChanged(
            reason=source,
            kraft_version=core.history.version,
            voters=tuple(core.voters),
            is_voter=core.is_voter,
        )
    )
