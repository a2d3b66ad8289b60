"""Which partition a key belongs to, as the Java producer places it: murmur2, without its sign.

Every client that asks for another place would split the records of one key.

Source: Austin Appleby's MurmurHash2, with the seed of Kafka's producer.
"""

from struct import unpack_from
from typing import Final

_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The hash, unsigned, 32 bits."""
    size = len(data)
    hashed = _SEED ^ size
    whole = size & ~3
    for (word,) in (unpack_from("<I", data, pos) for pos in range(0, whole, 4)):
        mixed = word * _FACTOR & _MASK
        mixed = (mixed ^ mixed >> 24) * _FACTOR & _MASK
        hashed = hashed * _FACTOR & _MASK ^ mixed
    if size > whole:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _FACTOR & _MASK
    hashed = (hashed ^ hashed >> 13) * _FACTOR & _MASK
    return hashed ^ hashed >> 15


def partition_of_key(key: bytes, partitions: int) -> int:
    """The partition, of so many."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
