"""Goal: each limit holds by itself, and what is gone is not counted any more."""

from tidelog.runtime.connection_limits import ConnectionLimits, Limit, LimitRules


def admitted(limits: ConnectionLimits, *places: tuple[str, str]) -> list[bool]:
    """Whether connections to listeners from addresses stay, one after the other."""
    return [limits.admit(number, *place) for number, place in enumerate(places)]


def test_the_nodes_limit_does_not_hold_between_nodes() -> None:
    rules = LimitRules(100, Limit(most=2), exempt=frozenset(("NODES",)))
    limits = ConnectionLimits(rules, lambda: 0)
    places = [("C", "a"), ("NODES", "a"), ("NODES", "b"), ("C", "b"), ("C", "c"), ("NODES", "c")]
    assert admitted(limits, *places) == [True, True, True, True, False, True]
    limits.release(0)
    limits.release(0)
    assert limits.admit(9, "C", "c")
    assert not limits.admit(10, "C", "c")
    assert limits.admit(9, "C", "c"), "it is there already"


def test_descriptors_are_a_limit_for_all() -> None:
    limits = ConnectionLimits(LimitRules(1, exempt=frozenset("C")), lambda: 0)
    assert admitted(limits, ("C", "a"), ("C", "b")) == [True, False]
    assert len(limits) == 1


def test_a_listener_and_an_address_have_limits_of_their_own() -> None:
    rules = LimitRules(100, listeners={"C": Limit(most=1)}, per_host=2, hosts={"z": 0})
    limits = ConnectionLimits(rules, lambda: 0)
    places = [("C", "a"), ("C", "b"), ("D", "a"), ("D", "a"), ("D", "z"), ("D", "b")]
    assert admitted(limits, *places) == [True, False, True, False, False, True]


def test_rates_are_of_any_second() -> None:
    now = [0]
    rules = LimitRules(100, Limit(rate=3), {"C": Limit(rate=2)})
    limits = ConnectionLimits(rules, lambda: now[0])
    places = [("C", "a"), ("C", "b"), ("C", "c"), ("D", "a"), ("D", "b")]
    assert admitted(limits, *places) == [True, True, False, True, False]
    now[0] = 999
    assert not limits.admit(7, "C", "a")
    now[0] = 1000
    assert limits.admit(7, "C", "a")
