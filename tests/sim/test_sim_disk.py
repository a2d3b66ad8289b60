"""What the simulator can do to a disk, and that it does it."""

import pytest

from tidelog.env.memory_disk import Operation
from tidelog.env.prng import Prng
from tidelog.errors import StorageError
from tidelog.sim.engine.disk import READS, SYNCS, WRITES, ProcessKilled, SimDisk, Trouble
from tidelog.sim.faults.damage import candidates, damage
from tidelog.sim.scenarios.fault_kinds import DAMAGE, DiskFault


def disk_with_files() -> SimDisk:
    disk = SimDisk("host1")
    for directory in ("t-0", "__cluster_metadata-0", "u-0.00-delete"):
        disk.make_dir(directory)
        disk.replace(f"{directory}/00000000000000000000.log", bytes(range(256)) * 40)
    disk.replace("t-0/leader-epoch-checkpoint", b"0\n1\n0 0\n")
    disk.replace("meta.properties", b"version=1\n")
    disk.replace("t-0/empty", b"")
    return disk


@pytest.mark.parametrize(
    ("operations", "act"),
    [
        (READS, lambda disk, file: file.read(0, 1)),
        (READS, lambda disk, file: disk.read_file("t-0/leader-epoch-checkpoint")),
        (WRITES, lambda disk, file: file.append([b"x"])),
        (WRITES, lambda disk, file: file.truncate(1)),
        (WRITES, lambda disk, file: disk.open("t-0/new", create=True)),
        (SYNCS, lambda disk, file: disk.sync(file)),
        (SYNCS, lambda disk, file: disk.replace("t-0/x", b"")),
    ],
)
@pytest.mark.parametrize("sticky", [False, True])
def test_an_operation_fails_once_or_until_the_disk_is_repaired(operations, act, sticky):
    disk = disk_with_files()
    file = disk.open("t-0/00000000000000000000.log")
    disk.troubles.append(Trouble("eio", operations, sticky=sticky))
    assert not disk.is_well and disk.is_pending
    with pytest.raises(StorageError):
        act(disk, file)
    assert disk.fired == {"eio": 1} and disk.hurt
    assert disk.loses_on_exit == (operations is SYNCS)
    if sticky:
        with pytest.raises(StorageError):
            act(disk, file)
        disk.heal()
    act(disk, file)
    assert disk.is_well and not disk.is_pending


def test_nothing_strikes_who_only_looks():
    disk = disk_with_files()
    file = disk.open("t-0/00000000000000000000.log")
    disk.troubles.append(Trouble("eio", READS))
    disk.misread_in = 0
    with disk.observed():
        assert file.read(0, 3) == b"\0\1\2"
    disk.troubles.clear()
    assert not disk.was_damaged
    assert file.read(0, 3) != b"\0\1\2"
    assert disk.was_damaged
    assert file.read(0, 3) == b"\0\1\2"
    assert disk.fired == {"bit-flip-on-read": 1}


@pytest.mark.parametrize("fault", [one for one in DAMAGE if one is not DiskFault.BIT_FLIP_ON_READ])
def test_damage_changes_bytes_without_a_report(fault):
    for seed in range(20):
        disk = disk_with_files()
        before = {path: bytes(content.data) for path, content in disk.contents()}
        assert damage(disk, fault, Prng(seed)) is not None
        after = {path: bytes(content.data) for path, content in disk.contents()}
        changed = {path for path in before if before[path] != after.get(path)}
        assert len(changed) in ((1, 2) if fault is DiskFault.MISDIRECTED else (1,))
        assert not any("-delete" in path for path in changed)
        assert disk.fired == {fault.value: 1}
        disk.crash()
        assert after == {path: bytes(content.data) for path, content in disk.contents()}


def test_damage_is_drawn_by_the_kind_of_file():
    found = candidates(disk_with_files())
    assert found == {
        "data log": ["t-0/00000000000000000000.log"],
        "data leader-epoch-checkpoint": ["t-0/leader-epoch-checkpoint"],
        "metadata log": ["__cluster_metadata-0/00000000000000000000.log"],
    }
    disk = disk_with_files()
    done = damage(disk, DiskFault.BIT_FLIP, Prng(1), ("metadata log",))
    assert done == "bit-flip __cluster_metadata-0/00000000000000000000.log"
    assert damage(disk, DiskFault.BIT_FLIP, Prng(1), ("nothing of this kind",)) is None


def test_a_transaction_index_is_damaged_only_where_a_start_can_see_it():
    def fires(fault: DiskFault) -> bool:
        disk = disk_with_files()
        disk.replace("t-0/00000000000000000000.txnindex", bytes(34))
        return damage(disk, fault, Prng(1), ("data txnindex",)) is not None

    at_rest = [one for one in DAMAGE if one is not DiskFault.BIT_FLIP_ON_READ]
    spared = {one for one in at_rest if not fires(one)}
    # A misdirected write needs a second file.
    assert spared == {DiskFault.MISSING, DiskFault.TRUNCATION, DiskFault.MISDIRECTED}


def test_a_witness_sees_every_operation_before_it_is_done():
    disk = disk_with_files()
    seen: list[tuple[Operation, str]] = []

    def witness(operation: Operation, path: str) -> None:
        seen.append((operation, path))
        if operation is Operation.RENAME:
            raise ProcessKilled(path)

    disk.witness = witness
    disk.make_dir("v-0")
    disk.open("v-0/a", create=True).append([b"x"])
    with pytest.raises(ProcessKilled):
        disk.rename("v-0", "w-0")
    assert disk.exists("v-0")
    assert [operation.value for operation, _ in seen if operation is not Operation.LOOK] == [
        *("make-dir", "create", "append", "rename")
    ]
