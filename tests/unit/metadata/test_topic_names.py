"""Legal topic names are those that can be directory names on every system."""

import pytest

from tidelog.metadata.topic_names import name_fault


@pytest.mark.parametrize("name", ["a", "A-z_0.9", "...", "a" * 249, "__consumer_offsets"])
def test_legal_names(name):
    assert name_fault(name) is None


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("", "empty"),
        (".", "not allowed"),
        ("..", "not allowed"),
        ("a" * 250, "longer than the maximum, 249"),
        ("a b", "other characters"),
        ("a/b", "other characters"),
        ("ä", "other characters"),
        ("a\n", "other characters"),
    ],
)
def test_other_names(name, fault):
    assert fault in (name_fault(name) or "")
