"""Ways to damage a message: what networks, old clients and attackers do to bytes.

All draws come from the generator that is given, so a case is named by its seed.
"""

from collections.abc import Callable, Sequence

from tidelog.env.prng import Prng

Mutation = Callable[[Prng, bytes], bytes]

_LIES = (
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xfe",
    b"\x00\x10\x00\x00",
    b"\x7f\xff",
    b"\xff\xfe",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x7f",
    b"\xff\xff\xff\xff\xff\xff",
    b"\x00",
    b"\x01",
    b"\x7f",
    b"\xff",
)
"""Lengths and numbers at their bounds, in both notations."""


def flip_bits(prng: Prng, data: bytes) -> bytes:
    """Flips one to four bits."""
    out = bytearray(data)
    for _ in range(prng.between(1, 4)):
        if out:
            out[prng.below(len(out))] ^= 1 << prng.below(8)
    return bytes(out)


def truncate(prng: Prng, data: bytes) -> bytes:
    """Cuts the end off."""
    return data[: prng.below(len(data) + 1)]


def lie(prng: Prng, data: bytes) -> bytes:
    """Overwrites a place with a number at its bounds: a length, a count, a version."""
    claim = prng.choice(_LIES)
    start = prng.below(len(data) + 1)
    return data[:start] + claim + data[start + len(claim) :]


def append(prng: Prng, data: bytes) -> bytes:
    """Adds bytes behind the end."""
    return data + random_bytes(prng, prng.between(1, 9))


def insert(prng: Prng, data: bytes) -> bytes:
    """Adds bytes somewhere: a field that the version does not have."""
    start = prng.below(len(data) + 1)
    return data[:start] + random_bytes(prng, prng.between(1, 5)) + data[start:]


def remove(prng: Prng, data: bytes) -> bytes:
    """Takes bytes out: a field that is missing."""
    start = prng.below(len(data) + 1)
    return data[:start] + data[start + prng.between(1, 5) :]


def repeat(prng: Prng, data: bytes) -> bytes:
    """Doubles a piece: a tagged field or list entry that comes twice."""
    start = prng.below(len(data) + 1)
    end = min(len(data), start + prng.between(1, 40))
    return data[:end] + data[start:]


def change_version(prng: Prng, data: bytes) -> bytes:
    """Another version in the header: the body is read with the wrong schema."""
    return data[:2] + bytes((0, prng.below(20))) + data[4:]


def change_api(prng: Prng, data: bytes) -> bytes:
    """Another API in the header."""
    return bytes((0, prng.below(96))) + data[2:]


def replace_all(prng: Prng, data: bytes) -> bytes:
    """Bytes that were never a message, of about the same length."""
    return random_bytes(prng, prng.below(len(data) + 8))


def random_bytes(prng: Prng, count: int) -> bytes:
    """Uniform bytes."""
    drawn = b"".join(prng.next_u64().to_bytes(8, "big") for _ in range((count + 7) // 8))
    return drawn[:count]


REQUEST_MUTATIONS: Sequence[Mutation] = (
    flip_bits,
    flip_bits,
    truncate,
    lie,
    lie,
    append,
    insert,
    remove,
    repeat,
    change_version,
    change_api,
    replace_all,
)
RESPONSE_MUTATIONS: Sequence[Mutation] = REQUEST_MUTATIONS[:-3]


def mutated(prng: Prng, data: bytes, mutations: Sequence[Mutation]) -> bytes:
    """One or two mutations, one after the other."""
    for _ in range(prng.between(1, 2)):
        data = prng.choice(mutations)(prng, data)
    return data
