"""HeldIsBounded: who has not moved for longest goes first."""

from tidelog.env.held import Held


def test_the_sum_follows_each_peer():
    held: Held[str] = Held(100)
    held.note("a", 40)
    held.note("b", 30)
    held.note("a", 10)
    assert (held.total_bytes, "a" in held) == (40, True)
    held.note("a", 0)
    assert (held.total_bytes, "a" in held) == (30, False)
    held.note("never held anything", 0)
    held.check()


def test_who_has_not_moved_for_longest_goes_until_the_rest_fits():
    held: Held[str] = Held(100)
    for peer in "abcd":
        held.note(peer, 30)
    held.note("a", 35, moved=True)
    held.note("b", 31)
    assert list(held.take_excess()) == ["b"]
    held.check()
    held.note("d", 61)
    assert list(held.take_excess()) == ["c"]
    assert list(held.take_excess()) == []
    held.check()
