"""Addresses as people write them."""

import pytest

from tidelog.client.core.values import parse_addresses
from tidelog.errors import UsageError


def test_addresses_are_read_and_written() -> None:
    found = parse_addresses([" localhost:9092", "[::1]:9092"])
    assert found == [("localhost", 9092), ("::1", 9092)]
    assert str(found[0]) == "localhost:9092"


@pytest.mark.parametrize(
    "wrong",
    ["localhost", ":9092", "localhost:", "localhost:kafka", "localhost:0", "localhost:75536"],
)
def test_what_is_not_an_address_is_named(wrong: str) -> None:
    with pytest.raises(UsageError, match="is not a `host:port` address") as caught:
        parse_addresses(["localhost:9092", wrong])
    assert f"`{wrong}`" in caught.value.message
