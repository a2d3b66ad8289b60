"""A client that has learned what there is ends no node, whatever it asks (`talkative`)."""

import pytest

from tests.fuzz.talkative import Talker
from tests.fuzz.test_long_texts import coordinating_all

REQUESTS = 40


@pytest.mark.parametrize("seed", range(6))
def test_no_request_ends_the_node(seed: int) -> None:
    node = coordinating_all()
    talker = Talker(seed, node)
    for number in range(REQUESTS):
        try:
            talker.talk()
        except BaseException as cause:
            raise AssertionError(f"request {number}: {cause!r} from {talker.last!r}") from cause
        assert not node.exits, f"request {number}: {talker.last!r}"
    assert talker.answered > REQUESTS // 4
