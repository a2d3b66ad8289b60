"""Goal: keys go where Kafka's Java producer sends them. The values are its own test's."""

import pytest

from tidelog.client.core.partitioning import murmur2, partition_of_key


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash(key, hashed):
    assert murmur2(key) == hashed % 2**32
    assert partition_of_key(key, 7) == (hashed % 2**31) % 7
