"""The transition table and the file `quorum-state`."""

import pytest

from tests.fixtures import kafka_files
from tidelog.env.effects import EffectQueue, Replace
from tidelog.env.memory_disk import MemoryDisk
from tidelog.errors import StorageError, UsageError
from tidelog.kraft.messages import ReplicaKey
from tidelog.kraft.quorum_state import (
    QUORUM_STATE_PATH,
    TRANSITIONS,
    ElectionState,
    QuorumStateFile,
    QuorumStateFlush,
    RoleName,
    check_succession,
    decode_state,
    encode_state,
)
from tidelog.model import METADATA_PARTITION, uuid_from_text


def make_file(disk: MemoryDisk, effects: EffectQueue) -> QuorumStateFile:
    """The file of a quorum of three."""
    disk.make_dir(str(METADATA_PARTITION))
    return QuorumStateFile(disk, effects, (1, 2, 3))


@pytest.mark.parametrize("node", ["node1", "node2", "node3"])
def test_kafkas_file_is_read_and_written_byte_for_byte(node: str) -> None:
    """Read a file of Kafka 4.3, write it again, compare."""
    data = kafka_files(node)[QUORUM_STATE_PATH]
    state = decode_state(data)
    assert state.leader_id in (1, 2, 3)
    assert encode_state(state, (1, 2, 3)) == data


def test_version_1_is_read_with_its_directory() -> None:
    """The layout of dynamic voters, as the quorum of a newer cluster leaves it."""
    directory = "qxeiHB1dRoKR4Qs8Y2V3Rw"
    data = (
        f'{{"leaderId":-1,"leaderEpoch":7,"votedId":2,"votedDirectoryId":"{directory}",'
        '"data_version":1}'
    ).encode()
    voted = ReplicaKey(2, uuid_from_text(directory))
    assert decode_state(data) == ElectionState(7, -1, voted)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[1]",
        b'{"leaderId":1,"leaderEpoch":-1,"votedId":-1,"data_version":0}',
        b'{"leaderId":-2,"leaderEpoch":1,"votedId":-1,"data_version":0}',
        b'{"leaderId":1,"leaderEpoch":1,"votedId":-1,"data_version":2}',
        b'{"leaderId":"x","leaderEpoch":1,"votedId":-1,"data_version":0}',
        b'{"leaderId":1,"leaderEpoch":2147483648,"votedId":-1,"data_version":0}',
        b'{"leaderId":2147483648,"leaderEpoch":1,"votedId":-1,"data_version":0}',
        b'{"leaderId":1e999,"leaderEpoch":1,"votedId":-1,"data_version":0}',
        9999 * b"[",
        b'{"leaderId":1,"leaderEpoch":1,"votedId":1,"votedDirectoryId":"?","data_version":1}',
    ],
)
def test_a_damaged_file_is_refused(data: bytes) -> None:
    """A guessed vote could be a second vote."""
    with pytest.raises(StorageError, match="not a quorum state"):
        decode_state(data)
    disk = MemoryDisk()
    disk.make_dir(str(METADATA_PARTITION))
    disk.replace(QUORUM_STATE_PATH, data)
    with pytest.raises(UsageError, match="not a quorum state"):
        QuorumStateFile.require(disk)


@pytest.mark.parametrize("formatted", [(), ("00000000000000000000-0000000000.checkpoint",)])
def test_the_first_start_makes_a_file_without_promises(formatted: tuple[str, ...]) -> None:
    """A directory without a log, empty or with the first voters in it; twice, as after a kill."""
    disk = MemoryDisk()
    for name in formatted:
        disk.make_dir(str(METADATA_PARTITION))
        disk.replace(f"{METADATA_PARTITION}/{name}", b"x")
    for _ in range(2):
        QuorumStateFile.require(disk)
        file = QuorumStateFile(disk, EffectQueue(), (1, 2, 3))
        assert file.written == file.durable == ElectionState(0, -1, None)
    disk.crash()
    assert decode_state(disk.read_file(QUORUM_STATE_PATH) or b"") == ElectionState()


@pytest.mark.parametrize(
    ("sign", "data"),
    [
        (f"{METADATA_PARTITION}/00000000000000000000.log", b""),
        (f"{METADATA_PARTITION}/00000000000000000009-0000000002.checkpoint", b""),
        ("recovery-point-offset-checkpoint", b"0\n1\n__cluster_metadata 0 9\n"),
    ],
)
def test_a_file_that_is_missing_where_a_process_has_lived_was_lost(sign: str, data: bytes) -> None:
    """The file is taken away, and all else but one sign; nothing is put in its place."""
    disk = MemoryDisk()
    QuorumStateFile.require(disk)
    disk.replace(sign, data)
    QuorumStateFile.require(disk)
    disk.delete(QUORUM_STATE_PATH)
    for _ in range(2):
        with pytest.raises(UsageError, match="quorum-state` is missing"):
            QuorumStateFile.require(disk)


def test_a_write_is_durable_when_it_is_confirmed_and_not_before() -> None:
    """Two writes; the confirmation of the second covers the first."""
    effects = EffectQueue()
    file = make_file(MemoryDisk(), effects)
    one, two = ElectionState(1), ElectionState(1, -1, ReplicaKey(2))
    assert file.maybe_write(one)
    assert file.maybe_write(two)
    assert not file.maybe_write(two)
    writes = effects.take()
    assert [effect.subject for effect in writes if isinstance(effect, Replace)] == [
        QuorumStateFlush(1),
        QuorumStateFlush(2),
    ]
    assert (file.durable, file.written, file.sequence) == (ElectionState(), two, 2)
    file.on_durable(2)
    file.check()
    assert (file.durable, file.durable_sequence) == (two, 2)


def test_what_is_written_is_read_after_a_restart() -> None:
    """Through the effect, the disk, and back."""
    disk, effects = MemoryDisk(), EffectQueue()
    state = ElectionState(4, 3, ReplicaKey(3))
    make_file(disk, effects).maybe_write(state)
    (effect,) = effects.take()
    assert isinstance(effect, Replace)
    disk.replace(effect.path, effect.data)
    assert make_file(disk, effects).written == state


@pytest.mark.parametrize(
    ("old", "new", "broken"),
    [
        (ElectionState(2), ElectionState(1), "EpochMonotonic"),
        (
            ElectionState(2, -1, ReplicaKey(1)),
            ElectionState(2, -1, ReplicaKey(3)),
            "VoteUniqueness",
        ),
        (ElectionState(2, -1, ReplicaKey(1)), ElectionState(2), "VoteUniqueness"),
        (ElectionState(2, 1), ElectionState(2, 3), "ElectionSafety"),
        (ElectionState(2, 1), ElectionState(2), "ElectionSafety"),
    ],
)
def test_a_promise_is_never_taken_back(old: ElectionState, new: ElectionState, broken: str) -> None:
    """Each forbidden succession fails under its property's name."""
    with pytest.raises(AssertionError, match=broken):
        check_succession(old, new)


def test_a_new_epoch_begins_without_promises() -> None:
    """And within an epoch promises may be added."""
    check_succession(ElectionState(2, 1, ReplicaKey(1)), ElectionState(3))
    check_succession(ElectionState(3), ElectionState(3, -1, ReplicaKey(2)))
    check_succession(ElectionState(3, -1, ReplicaKey(2)), ElectionState(3, 2, ReplicaKey(2)))


def test_the_ways_to_the_top_are_narrow() -> None:
    """Pre-vote before candidacy, candidacy before leadership, and no way back into an epoch."""
    into = {
        target: {source for source, targets in TRANSITIONS.items() if target in targets}
        for target in RoleName
    }
    assert into[RoleName.LEADER] == {RoleName.CANDIDATE}
    assert into[RoleName.CANDIDATE] == {RoleName.PROSPECTIVE}
    assert into[RoleName.RESIGNED] == {RoleName.LEADER}
    assert RoleName.PROSPECTIVE not in TRANSITIONS[RoleName.RESIGNED]
    assert all(RoleName.UNATTACHED in targets for targets in TRANSITIONS.values())
