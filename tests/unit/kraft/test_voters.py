"""Voter sets as records, and the history of them that a truncation walks back."""

import pytest

from tidelog.errors import CorruptBatch
from tidelog.kraft.messages import ReplicaKey, Voter
from tidelog.kraft.voters import (
    VoterHistory,
    by_id,
    decode_kraft_version,
    decode_voters,
    encode_voters,
    is_voter,
    voter_records,
)
from tidelog.model import ZERO_UUID, Endpoint, Uuid
from tidelog.records.control import ControlType, kraft_version_value


def voter(node_id: int, directory: int = 0) -> Voter:
    directory_id = Uuid((directory << 8 | node_id).to_bytes(16, "big"))
    return Voter(node_id, directory_id, (Endpoint("CONTROLLER", f"n{node_id}", 9093),))


def members(*node_ids: int) -> dict[int, Voter]:
    return by_id([voter(node_id) for node_id in node_ids])


def history(*sets: tuple[int, dict[int, Voter]]) -> VoterHistory:
    """Version 1 from offset 0 on, then these sets."""
    made = VoterHistory({})
    made.on_record(ControlType.KRAFT_VERSION, kraft_version_value(1), 0)
    for offset, voters in sets:
        made.on_record(ControlType.KRAFT_VOTERS, encode_voters(voters), offset)
    return made


def test_a_voters_record_is_kafkas_byte_for_byte() -> None:
    """By KIP-853's schema: version, count + 1, id, directory, endpoints, range, tags."""
    value = encode_voters({1: Voter(1, Uuid(b"d" * 16), (Endpoint("C", "h", 9093),), (0, 1))})
    expected = b"\0\0" + b"\x02" + b"\0\0\0\x01" + b"d" * 16 + b"\x02\x02C\x02h\x23\x85\0"
    assert value == expected + b"\0\0\0\x01\0" + b"\0" + b"\0"
    assert decode_voters(value)[1].endpoints == (Endpoint("C", "h", 9093),)


@pytest.mark.parametrize(
    "value",
    [b"", b"\0\0", encode_voters(members(1))[:-1], encode_voters(members(1)) + b"x", b"\0\0\x01\0"],
)
def test_unreadable_voters_are_corrupt(value: bytes) -> None:
    with pytest.raises(CorruptBatch):
        decode_voters(value)


def test_a_version_record_is_read() -> None:
    assert decode_kraft_version(kraft_version_value(1)) == 1


def test_a_voter_is_an_id_and_a_disk() -> None:
    known, static = members(1), {1: Voter(1, ZERO_UUID, ())}
    wiped = ReplicaKey(1, Uuid(b"w" * 16))
    assert is_voter(known, ReplicaKey(1, known[1].directory_id))
    assert not is_voter(known, wiped)
    assert is_voter(static, wiped), "static voters have no directory"
    assert not is_voter(static, ReplicaKey(2))


def test_configured_voters_count_until_the_log_has_some() -> None:
    made = VoterHistory(members(3, 1))
    assert (list(made.voters), made.version, made.voters_offset) == ([1, 3], 0, None)
    made.on_record(ControlType.LEADER_CHANGE, b"anything", 0)
    assert made.voters_offset is None


def test_the_newest_set_counts_and_a_truncation_brings_the_former_back() -> None:
    made = history((2, members(1, 2)), (7, members(1, 2, 3)))
    assert (list(made.voters), made.voters_offset) == ([1, 2, 3], 7)
    assert not made.truncate_to(8)
    assert made.truncate_to(7)
    assert list(made.voters) == [1, 2]


def test_a_snapshot_says_what_counted_where_it_ends() -> None:
    made = history((2, members(1, 2)), (7, members(1, 2, 3)))
    assert made.records_at(7) == voter_records(1, members(1, 2))
    assert made.records_at(8) == voter_records(1, members(1, 2, 3))
    assert VoterHistory(members(1)).records_at(8) == (), "static voters are in no snapshot"
    restored = VoterHistory({})
    restored.restart(100, made.records_at(8))
    assert (list(restored.voters), restored.voters_offset) == ([1, 2, 3], 99)


def test_what_is_below_the_logs_start_is_forgotten_but_for_the_newest() -> None:
    made = history((2, members(1)), (4, members(1, 2)), (9, members(1, 2, 3)))
    made.forget_before(6)
    assert made.records_at(6) == voter_records(1, members(1, 2))
    assert made.records_at(3) == ()
    assert list(made.voters) == [1, 2, 3]


def test_a_removed_voter_may_ask_for_votes_until_that_is_committed() -> None:
    made = history((2, members(1, 2)), (7, members(2)))
    removed = ReplicaKey(1, voter(1).directory_id)
    assert made.may_campaign(removed, high_watermark=7)
    assert not made.may_campaign(removed, high_watermark=8)
    assert made.may_campaign(ReplicaKey(2, voter(2).directory_id), high_watermark=8)
    assert not made.may_campaign(ReplicaKey(9), high_watermark=0)
