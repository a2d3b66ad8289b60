"""The identity of a directory: formatting, and identities that are refused."""

import pytest

from tests.unit.log.harness import DIRECTORY_ID, open_directory
from tidelog.env.memory_disk import MemoryDisk
from tidelog.errors import UsageError
from tidelog.log.identity import format_directory, is_formatted, read_identity


def test_an_unformatted_directory_is_refused() -> None:
    """Goal: the error has a hint for the operator."""
    disk = MemoryDisk()
    assert not is_formatted(disk)
    with pytest.raises(UsageError) as caught:
        open_directory(disk)
    assert "tidelog format" in caught.value.hint


@pytest.mark.parametrize(
    "content",
    [
        b"version=0\nbroker.id=1\ncluster.id=c\n",
        b"version=1\nnode.id=x\ncluster.id=c\ndirectory.id=jLiZOjnm4qITQ6be9YuhSg\n",
        b"version=1\nnode.id=1\ncluster.id=c\ndirectory.id=short\n",
        b"version=1\n",
        b"\xff",
    ],
)
def test_foreign_identities_are_refused(content: bytes) -> None:
    """Goal: old, incomplete and damaged meta.properties are the operator's matter."""
    disk = MemoryDisk()
    disk.replace("meta.properties", content)
    with pytest.raises(UsageError):
        read_identity(disk)


@pytest.mark.parametrize("name", ["version", "cluster.id", "node.id", "directory.id"])
def test_the_error_names_the_part_that_an_identity_lacks(name: str) -> None:
    """Goal: the operator reads what is missing, not a bare name."""
    parts = {"version": "1", "cluster.id": "c", "node.id": "1", "directory.id": "A" * 22}
    lines = (f"{key}={value}\n" for key, value in parts.items() if key != name)
    disk = MemoryDisk()
    disk.replace("meta.properties", "".join(lines).encode())
    with pytest.raises(UsageError, match=f"meta.properties` cannot be used: it has no `{name}`$"):
        read_identity(disk)


def test_an_identity_that_is_lost_is_not_one_that_never_was() -> None:
    """Goal: the hint never is to format a directory with logs."""
    disk = MemoryDisk()
    disk.make_dir("orders-3")
    with pytest.raises(UsageError, match=r"meta.properties` is missing from a directory with logs"):
        read_identity(disk)
    disk.delete("orders-3")
    with pytest.raises(UsageError, match="is not formatted"):
        read_identity(disk)


def test_formatting_happens_once() -> None:
    """Goal: a formatted directory is never overwritten."""
    disk = MemoryDisk()
    format_directory(disk, cluster_id="c", node_id=4, directory_id=DIRECTORY_ID)
    assert is_formatted(disk)
    assert read_identity(disk) == ("c", 4, DIRECTORY_ID)
    with pytest.raises(UsageError):
        format_directory(disk, cluster_id="d", node_id=4, directory_id=DIRECTORY_ID)
