"""Places that a user names."""

from pathlib import Path

import pytest

from tidelog.errors import UsageError
from tidelog.pipeline.places import local_path


def test_a_place_is_a_path_or_a_file_address() -> None:
    for place in ("a/b", Path("a/b")):
        assert local_path(place) == Path("a/b")
    for address in ("file:/a/b%20c", "file:///a/b%20c", Path("file:///a/b%20c")):
        assert local_path(address) == Path("/a/b c")


@pytest.mark.parametrize("address", ["s3://b/x", Path("s3://b/x"), "abfss:/b", "S3A://b"])
def test_an_address_of_another_scheme_is_refused(address):
    with pytest.raises(UsageError, match="which is not served"):
        local_path(address)
