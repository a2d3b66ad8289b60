"""Values of share partitions: when deliveries are throttled."""

import pytest

from tidelog.sharing.values import ShareSettings


@pytest.mark.parametrize(("limit", "found"), [(2, 2), (4, 2), (5, 3), (6, 3), (10, 5)])
def test_half_the_deliveries_begin_the_throttling(limit, found):
    assert ShareSettings(delivery_count_limit=limit).throttled_from == found
