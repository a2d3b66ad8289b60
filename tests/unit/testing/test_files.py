"""Files that are replaced as a whole."""

from pathlib import Path

import pytest

from tidelog.testing.files import replace_file


def test_a_write_that_fails_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "admin.properties"
    replace_file(path, "old", secret=True)
    with pytest.raises(UnicodeEncodeError):
        replace_file(path, "new \ud800", secret=True)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_reader_of_the_old_file_goes_on_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    replace_file(path, "old")
    with path.open() as reader:
        replace_file(path, "new")
        assert reader.read() == "old"
    assert path.read_text() == "new"


def test_only_this_user_may_read_a_secret(tmp_path: Path) -> None:
    """Also one that all could read before."""
    path = tmp_path / "key.pem"
    path.write_text("old")
    path.chmod(0o644)
    replace_file(path, "new", secret=True)
    assert path.stat().st_mode & 0o777 == 0o600
