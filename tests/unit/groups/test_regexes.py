"""Which topics a subscription by regular expression has."""

import pytest

from tidelog.errors import ErrorCode, ProtocolError
from tidelog.groups.regexes import matching

NAMES = ["orders", "orders.eu", "my-orders", "Orders", "bücher"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("orders", ("orders",)),
        ("orders.*", ("orders", "orders.eu")),
        ("(?i)orders", ("Orders", "orders")),
        (r"\pL+", ("Orders", "bücher", "orders")),
        ("", ()),
    ],
)
def test_a_whole_name_must_match(pattern, found):
    assert matching(pattern, NAMES) == found


@pytest.mark.parametrize("pattern", ["(", r"(a)\1", "a(?=b)", "x{1001}"])
def test_what_is_not_an_expression(pattern):
    with pytest.raises(ProtocolError, match="not a valid regular expression") as caught:
        matching(pattern, NAMES)
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_no_expression_takes_more_than_its_share_of_time():
    """Python's `re` would need more than a year for this."""
    assert matching("(a+)+b", ["a" * 200]) == ()
