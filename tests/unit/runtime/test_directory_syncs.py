"""Which directories are synced, and how often."""

from pathlib import Path

import pytest

from tidelog.runtime import directory_syncs
from tidelog.runtime.directory_syncs import DirectorySyncs


@pytest.fixture
def synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The directories that were synced, in order, relative to the root."""
    found: list[str] = []
    real = directory_syncs.fsync_directory

    def record(path: Path) -> None:
        real(path)
        found.append(str(path.relative_to(tmp_path)))

    monkeypatch.setattr(directory_syncs, "fsync_directory", record)
    (tmp_path / "a" / "b").mkdir(parents=True)
    return found


def test_a_path_is_synced_once_per_change(tmp_path: Path, synced: list[str]) -> None:
    """Goal: a directory is not trusted before its first sync; later only changes cost one."""
    syncs = DirectorySyncs(tmp_path)
    syncs.sync_path("a/b/c")
    assert synced == ["a/b", "a", "."]
    syncs.sync_path("a/b/c")
    syncs.sync_path("a/b/d")
    assert len(synced) == 3
    syncs.changed("a/b")
    syncs.sync_path("a/b/c")
    assert synced[3:] == ["a"]


def test_a_change_during_a_sync_is_not_taken_for_synced(
    tmp_path: Path, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: two threads; a name that appears while the flush thread syncs is synced again."""
    syncs = DirectorySyncs(tmp_path)
    record = directory_syncs.fsync_directory

    def with_a_change(path: Path) -> None:
        record(path)
        syncs.changed("new")

    monkeypatch.setattr(directory_syncs, "fsync_directory", with_a_change)
    syncs.sync("")
    monkeypatch.setattr(directory_syncs, "fsync_directory", record)
    syncs.sync("")
    syncs.sync("")
    assert synced == [".", "."]


def test_a_directory_with_an_older_name_is_synced_again(tmp_path: Path, synced: list[str]) -> None:
    """Goal: what was known of a name does not hold for the directory that has it now."""
    syncs = DirectorySyncs(tmp_path)
    syncs.sync("a")
    syncs.forget("a")
    syncs.sync("a")
    assert synced == ["a", "a"]


def test_a_directory_that_takes_a_name_during_a_sync_is_not_taken_for_synced(
    tmp_path: Path, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: two threads; a log takes the name of a directory that is being synced."""
    syncs = DirectorySyncs(tmp_path)
    record = directory_syncs.fsync_directory

    def with_a_rename(path: Path) -> None:
        record(path)
        syncs.forget("a")

    monkeypatch.setattr(directory_syncs, "fsync_directory", with_a_rename)
    syncs.sync("a")
    monkeypatch.setattr(directory_syncs, "fsync_directory", record)
    syncs.sync("a")
    syncs.sync("a")
    assert synced == ["a", "a"]
