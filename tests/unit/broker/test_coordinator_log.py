"""Goal: a log is loaded to the end, in order; what a transaction wrote counts when it commits."""

from tests.fixtures import kafka_files
from tidelog.broker.coordinator_log import LogLoader
from tidelog.groups.image import GroupsImage, GroupsMachine
from tidelog.groups.records import CommittedOffset, OffsetRecord, encode
from tidelog.model import TopicPartition
from tidelog.records.batch import build_batch
from tidelog.records.control import ControlType, control_record
from tidelog.records.record import Record

T0 = TopicPartition("t", 0)
MARKER = b"\x00\x00\x00\x00\x00\x00"


def batch(base_offset, group_id, offset, *, producer_id=-1):
    key, value = encode(OffsetRecord(group_id, T0, CommittedOffset(offset)))
    return build_batch(
        [Record(0, key, value)],
        base_offset=base_offset,
        leader_epoch=3,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        is_transactional=producer_id >= 0,
    )


def marker(base_offset, producer_id, control_type):
    return build_batch(
        [control_record(control_type, MARKER, 0)],
        base_offset=base_offset,
        leader_epoch=3,
        producer_id=producer_id,
        producer_epoch=0,
        is_control=True,
        is_transactional=True,
    )


def loaded(*chunks, end):
    """The image after these reads."""
    machine, image, loader = GroupsMachine(), GroupsImage(), LogLoader(0, end)
    for chunk in chunks:
        assert not loader.is_done
        found = loader.take(chunk, end)
        records = [machine.decode(raw) for raw in found.records]
        image = machine.replay(image, records, found.last_offset, found.epoch)
    assert loader.is_done
    return {
        group_id: group.offsets[T0].offset
        for group_id, group in image.groups.items()
        if T0 in group.offsets
    }


def test_batches_are_read_as_one():
    loader = LogLoader(2, 9)
    found = loader.take(batch(4, "g", 1) + batch(6, "h", 2), 9)
    assert (found.base_offset, found.last_offset, found.epoch) == (2, 6, 3)
    assert len(found.records) == 2 and not loader.is_done


def test_a_log_may_end_in_what_compaction_has_left_out():
    loader = LogLoader(0, 9)
    loader.take(batch(4, "g", 1), 8)
    found = loader.take(b"", 8)
    assert (found.base_offset, found.last_offset, found.records) == (5, 7, [])
    assert not loader.is_done, "what is not committed yet is still to come"
    loader.take(b"", 9)
    assert loader.is_done


def test_a_transaction_counts_from_its_marker_on():
    first = batch(0, "g", 5, producer_id=7) + batch(1, "h", 6, producer_id=8)
    assert loaded(first, batch(2, "g", 4), end=3) == {"g": 4}
    committed = marker(3, 7, ControlType.COMMIT) + marker(4, 8, ControlType.ABORT)
    assert loaded(first, committed, end=5) == {"g": 5}


def test_of_two_commits_the_later_one_counts_whenever_the_marker_comes():
    """The plain commit stands behind the transaction's in the log (KIP-447)."""
    waiting, end = batch(0, "g", 5, producer_id=7), marker(2, 7, ControlType.COMMIT)
    assert loaded(waiting, batch(1, "g", 4), end, end=3) == {"g": 4}
    earlier = batch(0, "g", 4), batch(1, "g", 5, producer_id=7)
    assert loaded(*earlier, end, end=3) == {"g": 5}


def test_the_offsets_topic_of_kafka_is_loaded():
    """With its transactions, of which some were aborted, and the groups of other protocols."""
    data = kafka_files("node1")["__consumer_offsets-1/00000000000000000000.log"]
    machine, loader = GroupsMachine(), LogLoader(0, 1)
    records = [machine.decode(raw) for raw in loader.take(data, 1).records]
    image = machine.replay(GroupsImage(), records, 0, 0)
    group = image.get("g-classic")
    assert group is not None and group.value is not None
    assert group.offsets[TopicPartition("plain", 0)].offset == 190
    assert group.value.members == ()
