"""Stripes over racks and brokers: rules always, wishes where they can be had."""

from collections import Counter

import pytest

from tests.unit.controller.harness import a_broker, an_image, directory_of
from tidelog.controller.placement import StripedPlacer, UsableBroker, usable_brokers
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode, ProtocolError


def brokers(count: int, *, fenced: tuple[int, ...] = (), racks: int = 0) -> list[UsableBroker]:
    return [
        UsableBroker(node_id, f"rack{node_id % racks}" if racks else None, node_id in fenced)
        for node_id in range(1, count + 1)
    ]


def place(
    members: list[UsableBroker], partitions: int, factor: int, seed: int = 1
) -> list[tuple[int, ...]]:
    placer = StripedPlacer(members, Prng(seed))
    return [placer.place(factor) for _ in range(partitions)]


def test_the_same_seed_gives_the_same_placement() -> None:
    """Goal: a replay places as the first run did, whatever order the brokers came in."""
    members = brokers(7, racks=3)
    assert place(members, 50, 3) == place(members[::-1], 50, 3)
    assert place(members, 50, 3) != place(members, 50, 3, seed=2)


def test_a_stripe() -> None:
    """Goal: leaders go round, followers follow; after a round it is shuffled."""
    stripe = place(brokers(3), 3, 3)
    assert sorted(replicas[0] for replicas in stripe) == [1, 2, 3]
    for replicas in stripe:
        assert sorted(replicas) == [1, 2, 3]
        assert replicas[1] == replicas[0] % 3 + 1


def test_leaders_are_even() -> None:
    """Goal: over many partitions every broker leads as often as any other."""
    leaders = Counter(replicas[0] for replicas in place(brokers(5), 100, 3))
    assert set(leaders.values()) == {20}


def test_rounds_differ() -> None:
    """Goal: the second follower of a leader is not the same one for ever."""
    followers = {replicas[1] for replicas in place(brokers(4), 40, 2) if replicas[0] == 1}
    assert followers == {2, 3, 4}


@pytest.mark.parametrize("seed", range(5))
def test_racks_come_before_brokers(seed: int) -> None:
    """Goal: three racks and three replicas: one replica in each rack, always."""
    members = brokers(9, racks=3)
    rack_of = {broker.node_id: broker.rack for broker in members}
    for replicas in place(members, 60, 3, seed):
        assert len({rack_of[replica] for replica in replicas}) == 3


def test_racks_of_unequal_size_take_a_replica_each() -> None:
    """Goal: a lone broker in its rack gets a replica of every partition."""
    members = [
        UsableBroker(1, "a", False),
        UsableBroker(2, "a", False),
        UsableBroker(3, "b", False),
    ]
    assert all(3 in replicas for replicas in place(members, 20, 2))


@pytest.mark.parametrize("seed", range(5))
def test_fenced_brokers_never_lead_and_come_last(seed: int) -> None:
    """Goal: within a rack a fenced broker is taken only when all live ones are."""
    members = brokers(5, fenced=(2, 4))
    for replicas in place(members, 40, 3, seed):
        assert sorted(replicas) == [1, 3, 5]
    for replicas in place(members, 40, 4, seed):
        assert replicas[0] in (1, 3, 5)
        assert len({2, 4} & set(replicas)) == 1
        assert replicas[-1] in (2, 4)


def test_a_rack_with_fenced_brokers_only_is_used_for_followers() -> None:
    """Goal: the rack wish beats the wish for live brokers, the leader rule beats both."""
    members = [UsableBroker(1, "a", False), UsableBroker(2, "a", False), UsableBroker(3, "b", True)]
    for replicas in place(members, 20, 2):
        assert replicas[0] in (1, 2)
        assert replicas[1] == 3


@pytest.mark.parametrize("seed", range(20))
def test_no_broker_twice(seed: int) -> None:
    """Goal: the rule that the placer itself asserts, on random clusters up to their size."""
    prng = Prng(seed)
    members = [
        UsableBroker(node_id, prng.choice((None, "a", "b", "c")), prng.chance(1, 3))
        for node_id in range(prng.between(1, 12))
    ]
    if all(broker.fenced for broker in members):
        members.append(UsableBroker(99, "a", False))
    factor = prng.between(1, len(members))
    live = {broker.node_id for broker in members if not broker.fenced}
    for replicas in place(members, 30, factor, seed):
        assert len(set(replicas)) == factor
        assert replicas[0] in live


@pytest.mark.parametrize(
    ("members", "factor", "reason"),
    [
        (brokers(3), 0, "must be positive"),
        (brokers(3), -2, "must be positive"),
        (brokers(3), 4, "larger than"),
        (brokers(3, fenced=(1, 2, 3)), 1, "all brokers are fenced"),
        ([], 1, "all brokers are fenced"),
    ],
)
def test_what_cannot_be_placed(members: list[UsableBroker], factor: int, reason: str) -> None:
    """Goal: one error code, and the reason with the numbers."""
    with pytest.raises(ProtocolError, match=reason) as caught:
        place(members, 1, factor)
    assert caught.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_who_is_usable() -> None:
    """Goal: fenced ones are, leaving and wholly cordoned ones are not; a broker that has left is
    fenced and usable again."""
    image = an_image(
        a_broker(1),
        a_broker(2, fenced=True),
        a_broker(3, in_controlled_shutdown=True),
        a_broker(4, in_controlled_shutdown=True, fenced=True),
        a_broker(5, cordoned_log_dirs=(directory_of(5),)),
        a_broker(6, log_dirs=(), rack="r"),
    )
    assert usable_brokers(image.brokers.values()) == [
        UsableBroker(1, None, False),
        UsableBroker(2, None, True),
        UsableBroker(4, None, True),
        UsableBroker(6, "r", False),
    ]
