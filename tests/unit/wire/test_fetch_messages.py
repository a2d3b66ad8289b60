"""Which Fetch versions there are."""

import pytest

from tidelog.errors import ErrorCode, ProtocolError
from tidelog.wire.fetch_messages import MAX_VERSION, MIN_VERSION, notation_of
from tidelog.wire.notation import CLASSIC, FLEXIBLE


def test_the_notation_changes_at_version_12() -> None:
    assert [notation_of(version) for version in range(MIN_VERSION, MAX_VERSION + 1)] == (
        [CLASSIC] * 8 + [FLEXIBLE] * 7
    )


@pytest.mark.parametrize("version", [-1, 3, 19])
def test_other_versions_are_unsupported(version: int) -> None:
    with pytest.raises(ProtocolError) as caught:
        notation_of(version)
    assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION
