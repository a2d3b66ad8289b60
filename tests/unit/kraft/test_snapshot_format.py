"""Snapshot files: what is written is read, and nothing but a whole snapshot is."""

import pytest

from tests.fixtures import kafka_files
from tidelog.env.prng import Prng
from tidelog.errors import CorruptBatch
from tidelog.kraft.messages import SnapshotId
from tidelog.kraft.snapshot_format import (
    BOOTSTRAP_SNAPSHOT,
    ControlEntry,
    SnapshotEncoder,
    encode_snapshot,
    parse_snapshot_name,
    read_snapshot,
    snapshot_name,
)
from tidelog.metadata.record_codec import decode_record
from tidelog.metadata.records import FeatureLevelRecord
from tidelog.records.batch import iter_headers
from tidelog.records.control import ControlType, kraft_version_value

ID = SnapshotId(1234, 7)
TIME_MS = 1_700_000_000_123


def test_a_snapshot_is_read_as_it_was_written() -> None:
    """Goal: state, time and the quorum's own records survive; batches may be any."""
    encoder = SnapshotEncoder(ID, TIME_MS)
    version = ControlEntry(ControlType.KRAFT_VERSION, kraft_version_value(1))
    voters = ControlEntry(ControlType.KRAFT_VOTERS, b"voters")
    data = b"".join(
        (
            encoder.header((version, voters)),
            encoder.records([b"a", b"b"]),
            encoder.records([b"c"]),
            encoder.footer(),
        )
    )
    content = read_snapshot(data, ID)
    assert content.snapshot_id == ID
    assert content.append_time_ms == TIME_MS
    assert content.control_entries == (version, voters)
    assert content.records == [b"a", b"b", b"c"]


def test_offsets_count_from_zero_and_the_epoch_is_the_snapshots() -> None:
    """Goal: the layout of Kafka's files."""
    data = encode_snapshot(ID, TIME_MS, [b"a", b"b"])
    headers = [header for _, header in iter_headers(data)]
    assert [(h.base_offset, h.last_offset, h.is_control) for h in headers] == [
        (0, 0, True),
        (1, 2, False),
        (3, 3, True),
    ]
    assert {h.leader_epoch for h in headers} == {ID.epoch}
    assert {h.max_timestamp for h in headers} == {TIME_MS}


def test_an_empty_state_is_a_snapshot_too() -> None:
    """Goal: header and footer are enough."""
    assert read_snapshot(encode_snapshot(ID, 0, []), ID).records == []


def test_kafkas_bootstrap_checkpoint_is_read() -> None:
    """Goal: a file that Apache Kafka wrote. Method: its feature levels."""
    content = read_snapshot(kafka_files("node1")["bootstrap.checkpoint"], BOOTSTRAP_SNAPSHOT)
    features = [decode_record(value) for value in content.records]
    assert FeatureLevelRecord(name="metadata.version", feature_level=30) in features
    assert len(features) == 6
    assert content.append_time_ms == 0


def test_what_we_write_has_the_bytes_that_kafka_writes() -> None:
    """Goal: our file of the same content differs from Kafka's in nothing but times and batches'
    checksums. Method: both, with those fields blanked."""
    theirs = kafka_files("node1")["bootstrap.checkpoint"]
    content = read_snapshot(theirs, BOOTSTRAP_SNAPSHOT)
    ours = encode_snapshot(BOOTSTRAP_SNAPSHOT, 0, content.records)
    assert _without_times(ours) == _without_times(theirs)


def _without_times(data: bytes) -> bytes:
    blank = bytearray(data)
    for position, _ in iter_headers(data):
        blank[position + 17 : position + 21] = bytes(4)
        blank[position + 27 : position + 43] = bytes(16)
    return bytes(blank)


def test_every_flipped_bit_is_found() -> None:
    """SnapshotWhole: no damaged byte goes unnoticed, except where it means nothing. Method: one bit
    of each byte; a batch's epoch lies before its checksummed part and means nothing here."""
    data = encode_snapshot(ID, TIME_MS, [b"one", b"two"])
    prng = Prng(7)
    epochs = {p + 12 + i for p, _ in iter_headers(data) for i in range(4)}
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1 << prng.below(8)
        if position in epochs:
            assert read_snapshot(damaged, ID).records == [b"one", b"two"]
        else:
            with pytest.raises(CorruptBatch):
                read_snapshot(damaged, ID)


def test_every_cut_is_found() -> None:
    """SnapshotWhole: a file that ends early is not a snapshot."""
    data = encode_snapshot(ID, TIME_MS, [b"one", b"two"])
    for size in range(len(data)):
        with pytest.raises(CorruptBatch):
            read_snapshot(data[:size], ID)


HEADER, RECORDS, FOOTER = "header", "records", "footer"


@pytest.mark.parametrize(
    "parts",
    [
        (RECORDS, FOOTER),
        (HEADER, RECORDS),
        (HEADER, HEADER, FOOTER),
        (HEADER, FOOTER, FOOTER),
        (HEADER, FOOTER, RECORDS),
        (FOOTER,),
        (),
    ],
)
def test_batches_out_of_order_are_no_snapshot(parts: tuple[str, ...]) -> None:
    """SnapshotWhole: the header first and once, the footer last and once."""
    encoder = SnapshotEncoder(ID, TIME_MS)
    build = {
        HEADER: lambda: encoder.header(),
        RECORDS: lambda: encoder.records([b"x"]),
        FOOTER: lambda: encoder.footer(),
    }
    data = b"".join(build[part]() for part in parts)
    with pytest.raises(CorruptBatch):
        read_snapshot(data, ID)


def test_a_lost_batch_is_found() -> None:
    """SnapshotWhole: offsets without a gap."""
    encoder = SnapshotEncoder(ID, TIME_MS)
    header, _, second = encoder.header(), encoder.records([b"a"]), encoder.records([b"b"])
    with pytest.raises(CorruptBatch, match="expected offset `1`"):
        read_snapshot(header + second + encoder.footer(), ID)


@pytest.mark.parametrize(
    ("snapshot_id", "name"),
    [
        (SnapshotId(0, 0), "00000000000000000000-0000000000.checkpoint"),
        (SnapshotId(1234, 7), "00000000000000001234-0000000007.checkpoint"),
        (SnapshotId(2**63 - 1, 2**31 - 1), "09223372036854775807-2147483647.checkpoint"),
    ],
)
def test_names(snapshot_id: SnapshotId, name: str) -> None:
    """Goal: Kafka's names, both ways."""
    assert snapshot_name(snapshot_id) == name
    assert parse_snapshot_name(name) == snapshot_id


@pytest.mark.parametrize(
    "name",
    [
        "00000000000000001234-0000000007.checkpoint.part",
        "00000000000000001234-0000000007.checkpoint.corrupt",
        "1234-7.checkpoint",
        "00000000000000001234.checkpoint",
        "0000000000000000123x-0000000007.checkpoint",
        "00000000000000001234.snapshot",
        "quorum-state",
    ],
)
def test_other_files_are_no_snapshots(name: str) -> None:
    """Goal: nothing unfinished and nothing foreign counts."""
    assert parse_snapshot_name(name) is None
