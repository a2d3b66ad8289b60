"""Filters of access control entries, and what is wrong with entries."""

import pytest

from tidelog.metadata.acls import AclEntry, AclFilter, fault_of_entry, fault_of_filter, matches

LITERAL, PREFIXED = 3, 4


def topic(name: str, operation: int, pattern: int = LITERAL) -> AclEntry:
    return AclEntry(2, name, pattern, "User:ada", "*", operation, 3)


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        (1, "orders", ["orders", "orders~"]),
        (2, "orders", ["orders", "*", "o~", "orders~"]),
        (3, "orders", ["orders"]),
        (4, "orders", ["orders~"]),
        (3, "*", ["*"]),
        (1, None, ["orders", "*", "o~", "orders~"]),
        (3, None, ["orders", "*"]),
        (1, "", []),
    ],
)
def test_filters_find_by_their_kind_of_pattern(
    pattern: int, name: str | None, found: list[str]
) -> None:
    entries = {
        "orders": topic("orders", 3),
        "*": topic("*", 3),
        "o~": topic("o", 3, PREFIXED),
        "orders~": topic("orders", 3, PREFIXED),
    }
    wanted = AclFilter(1, name, pattern, None, None, 1, 1)
    assert [key for key, entry in entries.items() if matches(wanted, entry)] == found


def test_an_entry_that_makes_no_sense_has_a_fault() -> None:
    good = topic("orders", 3)
    assert fault_of_entry(good, is_host=True) is None
    for change in (
        {"resource_type": 1},
        {"resource_type": 9},
        {"pattern_type": 1},
        {"pattern_type": 2},
        {"operation": 1},
        {"operation": 16},
        {"permission_type": 1},
        {"resource_name": ""},
        {"resource_type": 4},
        {"principal": "ada"},
        {"principal": "User:a\nb"},
        {"resource_name": "a\0"},
    ):
        assert fault_of_entry(good._replace(**change), is_host=True), change
    assert fault_of_entry(good, is_host=False)


def test_a_filter_with_an_unknown_number_has_a_fault() -> None:
    every = AclFilter(1, None, 1, None, None, 1, 1)
    assert fault_of_filter(every) is None
    for field in ("resource_type", "pattern_type", "operation", "permission_type"):
        for number in (0, 99):
            assert fault_of_filter(every._replace(**{field: number})), field
