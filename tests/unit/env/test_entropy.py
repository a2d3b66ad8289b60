"""Bytes from a seed: the same ones again, and others from another seed."""

import inspect

from tidelog.env.entropy import SEED_BITS, Entropy
from tidelog.runtime import server


def test_a_seed_gives_the_same_bytes_again():
    one, other = Entropy(7), Entropy(7)
    assert [one.draw() for _ in range(3)] == [other.draw() for _ in range(3)]
    assert Entropy(7).draw() != Entropy(8).draw()


def test_every_bit_of_a_seed_counts():
    drawn = {Entropy(1 << bit).draw() for bit in range(SEED_BITS)}
    assert len(drawn) == SEED_BITS


def test_a_nonce_is_printable_and_never_the_same():
    entropy = Entropy(1)
    nonces = {entropy.nonce() for _ in range(100)}
    assert len(nonces) == 100
    assert all(len(each) == 32 and each.isascii() and "," not in each for each in nonces)


def test_a_node_in_production_takes_its_seed_from_the_system():
    assert "secrets.randbits(SEED_BITS)" in inspect.getsource(server)
