"""Goal: a `.properties` file reads as `java.util.Properties` reads it, and ours read back."""

import pytest

from tidelog.config import format_properties, parse_assignment, parse_properties
from tidelog.env.prng import Prng
from tidelog.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("a:b", {"a": "b"}),
        ("a b c", {"a": "b c"}),
        ("a", {"a": ""}),
        ("  a=b\n\n# comment\n! another\nc=d", {"a": "b", "c": "d"}),
        ("a=b,\\\n   c,\\\n d", {"a": "b,c,d"}),
        ("a=one\\\\\nb=two", {"a": "one\\", "b": "two"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a=\\u00e9\\tx", {"a": "é\tx"}),
        ("a=1\na=2", {"a": "2"}),
        ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
        ("a=b\r\nc=d\r\n", {"a": "b", "c": "d"}),
        ("a=b\\", {"a": "b"}),
    ],
)
def test_reads_what_java_reads(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_a_malformed_unicode_escape_is_refused() -> None:
    with pytest.raises(UsageError, match="is not a character"):
        parse_properties("a=\\u12x")


def test_formatting_and_parsing_are_inverse_for_seeded_texts() -> None:
    """Method: random names and values over the characters that the syntax treats specially."""
    prng = Prng(7)
    alphabet = "ab \t\n\\=:#!é\r\f\u2028"
    for _ in range(300):
        settings = {
            "n" + "".join(prng.choice(alphabet) for _ in range(prng.below(6))): "".join(
                prng.choice(alphabet) for _ in range(prng.below(9))
            )
            for _ in range(prng.below(4))
        }
        assert parse_properties(format_properties(settings, "made by a test")) == settings


def test_an_assignment_splits_at_its_first_equals_sign() -> None:
    assert parse_assignment("a.b=c=d") == ("a.b", "c=d")
    for bad in ("a.b", "=c", ""):
        with pytest.raises(UsageError):
            parse_assignment(bad)
