"""Goal: all brokers of a cluster, Kafka's included, look for a coordinator in the same place."""

import pytest

from tidelog.rsm.placement import partition_of


@pytest.mark.parametrize(
    ("key", "hash_code"),
    # Java's String.hashCode, of texts whose values are documented or computed by its rule by hand.
    [("", 0), ("a", 97), ("ab", 97 * 31 + 98), ("polygenelubricants", 0), ("\U0001f600", 1772899)],
)
def test_the_partition_is_where_javas_hash_says(key, hash_code):
    assert partition_of(key, 50) == hash_code % 50
