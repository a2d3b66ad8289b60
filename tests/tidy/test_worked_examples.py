"""The worked examples of `docs/protocol/log-format.md` are decoded by the code, and made by it."""

import re

from tests.tidy.source import texts
from tidelog.log.checkpoint import (
    CleanShutdown,
    decode_clean_shutdown,
    decode_epochs,
    decode_offsets,
    decode_partition_metadata,
    decode_properties,
    encode_clean_shutdown,
    encode_epochs,
    encode_meta_properties,
    encode_offsets,
    encode_partition_metadata,
)
from tidelog.log.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, OffsetIndex, TimeIndex
from tidelog.log.producer_snapshots import decode_snapshot
from tidelog.log.producer_state import ProducerStates
from tidelog.model import TopicId, TopicPartition, Uuid
from tidelog.records.batch import HEADER_BYTES, build_batch, decode_batch, read_header, verify_crc
from tidelog.records.control import EndTxnMarker, build_end_txn_marker, read_end_txn_marker
from tidelog.records.record import Record

DOCUMENT = "docs/protocol/log-format.md"
BASE_TIMESTAMP = 1_700_000_000_000
RECORDS = [
    Record(BASE_TIMESTAMP, b"LH-1", b"boarding", (("gate", b"A7"),), 40),
    Record(BASE_TIMESTAMP + 25, None, b"closed", (), 41),
]


def block(name: str) -> str:
    """The text of an example."""
    marker = f"<!-- example: {name} -->\n```\n"
    (text,) = re.findall(re.escape(marker) + "(.*?)```", texts()[DOCUMENT], re.DOTALL)
    return str(text)


def example(name: str) -> bytes:
    """The bytes of a hex example: on each line, what stands before the explanation."""
    found = bytearray()
    for line in block(name).splitlines():
        shown = re.match(r"(?:[0-9a-f]{2} {1,2})*[0-9a-f]{2}(?= {2,}|$)", line)
        assert shown is not None or not line, line
        found += bytes.fromhex(shown.group() if shown else "")
    return bytes(found)


def text_example(name: str) -> bytes:
    return block(name).encode()


def test_the_batch_says_what_the_page_says():
    data = example("batch")
    header = read_header(data)
    assert header._replace(crc=0) == (
        40,
        89,
        3,
        2,
        0,
        0,
        1,
        BASE_TIMESTAMP,
        BASE_TIMESTAMP + 25,
        2000,
        0,
        7,
        2,
    )
    assert header.crc == 0xDFC71C7B
    assert verify_crc(data, 0)
    assert decode_batch(data) == RECORDS


def test_the_batch_is_what_the_builder_builds():
    built = build_batch(
        RECORDS, base_offset=40, leader_epoch=3, producer_id=2000, producer_epoch=0, base_sequence=7
    )
    assert built == example("batch")


def test_the_table_of_fields_adds_up_to_the_header():
    rows = re.findall(r"^\| (\d+) \| (\d+) \|", texts()[DOCUMENT], re.MULTILINE)
    position = 0
    for start, size in rows:
        assert int(start) == position
        position += int(size)
    assert position == HEADER_BYTES


def test_the_control_batch_commits():
    data = example("marker")
    marker = EndTxnMarker(is_commit=True, coordinator_epoch=5)
    assert read_end_txn_marker(data) == marker
    assert build_end_txn_marker(marker, 2000, 0, BASE_TIMESTAMP + 50) == data
    header = read_header(data)
    assert header.is_control and header.is_transactional


def test_the_indexes_find_the_batches():
    offsets = OffsetIndex(40, 10 * OFFSET_ENTRY_BYTES)
    assert offsets.load(example("index"), 8000)
    positions = [offsets.entry_for(offset)[1] for offset in (40, 41, 74, 75, 99)]
    assert positions == [0, 0, 0, 4180, 4180]
    assert offsets.encode() == example("index")
    times = TimeIndex(40, 10 * TIME_ENTRY_BYTES)
    assert times.load(example("timeindex"))
    assert times.last_entry == (BASE_TIMESTAMP + 3000, 75)
    assert times.encode() == example("timeindex")


def test_the_snapshot_is_the_state_behind_the_batch():
    states = ProducerStates()
    header = read_header(example("batch"))
    states.replay(header, header.base_offset, header.max_timestamp, None)
    assert states.encode_snapshot() == example("snapshot")
    (entry,) = decode_snapshot(example("snapshot"))
    assert (entry.producer_id, entry.producer_epoch, entry.last_sequence) == (2000, 0, 8)


def test_the_text_files_read_and_write():
    offsets = {TopicPartition("orders", 0): 42, TopicPartition("orders", 1): 7}
    assert decode_offsets(text_example("replication-offset-checkpoint")) == offsets
    assert encode_offsets(offsets) == text_example("replication-offset-checkpoint")
    epochs = [(0, 0), (3, 40)]
    assert decode_epochs(text_example("leader-epoch-checkpoint")) == epochs
    assert encode_epochs(epochs) == text_example("leader-epoch-checkpoint")
    topic_id = TopicId(bytes(range(16)))
    assert decode_partition_metadata(text_example("partition.metadata")) == topic_id
    assert encode_partition_metadata(topic_id) == text_example("partition.metadata").rstrip()
    written = encode_meta_properties("b25lLW5vZGUtY2x1c3Rlcg", 1, Uuid(b"d" * 16))
    assert decode_properties(text_example("meta.properties")) == decode_properties(written)
    assert decode_clean_shutdown(text_example(".kafka_cleanshutdown")) == CleanShutdown(77)
    assert encode_clean_shutdown(CleanShutdown(77)) == text_example(".kafka_cleanshutdown").rstrip()
