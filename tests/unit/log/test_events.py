"""Goal: the lines of the log's events show what a reader needs, and no files keep them."""

import pytest

from tests.unit.log.harness import PARTITION
from tidelog.env.event import Event, record_of
from tidelog.log.checkpoint import IdentityDamaged, IdentityFault, decode_partition_metadata
from tidelog.log.events import DirectoryLoaded, LastStop, RecoveryPointsMissing, TopicIdUnknown

UNKNOWN = TopicIdUnknown(
    partition=PARTITION,
    reason=IdentityFault.NO_COLON,
    detail="line `x` has no colon",
    file="orders-3/partition.metadata",
)
LINES = (
    (
        UNKNOWN,
        "orders-3 read_topic_id: topic id unknown (line `x` has no colon) "
        "file=orders-3/partition.metadata",
    ),
    (
        DirectoryLoaded(root="/data", reason=LastStop.CLEAN, logs=3, damaged=0),
        "/data open: loaded logs=3 damaged=0",
    ),
    (
        RecoveryPointsMissing(),
        "recovery-point-offset-checkpoint read_checkpoints: missing (all counts as durable)",
    ),
)


@pytest.mark.parametrize(("event", "line"), LINES)
def test_lines(event: Event, line: str) -> None:
    assert event.text() == line
    assert record_of(event) is None


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"\xff", IdentityFault.NOT_TEXT),
        (b"version 0", IdentityFault.NO_COLON),
        (b"version: 1\ntopic_id: x", IdentityFault.WRONG_FIELDS),
        (b"version: 0\ntopic_id: x", IdentityFault.NOT_A_UUID),
    ],
)
def test_a_topic_id_is_unknown_for_one_of_these_reasons(data: bytes, fault: IdentityFault) -> None:
    with pytest.raises(IdentityDamaged) as raised:
        decode_partition_metadata(data)
    assert raised.value.fault is fault
