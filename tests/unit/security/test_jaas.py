"""JAAS strings: the grammar, and complaints that repeat no secret."""

import pytest

from tidelog.errors import UsageError
from tidelog.limits import MAX_JAAS_CHARACTERS
from tidelog.model import Secret
from tidelog.security.jaas import PLAIN_MODULE, SCRAM_MODULE, Jaas, parse_jaas

SETTING = "sasl.jaas.config"


def parsed(text: str) -> Jaas:
    return parse_jaas(Secret(text), SETTING)


def test_a_module_has_options_in_quotes_or_without():
    jaas = parsed(f"{PLAIN_MODULE} required username=\"al ice\" password='s;e=c' user_bob=b-0.x ;")
    assert jaas.module == PLAIN_MODULE
    assert [jaas.option(name) for name in ("username", "password", "user_bob")] == [
        "al ice",
        "s;e=c",
        "b-0.x",
    ]
    assert jaas.option("nothing") == ""


def test_comments_lines_and_escapes_are_javas():
    jaas = parsed(
        f'// a comment\n{SCRAM_MODULE} /* more\nlines */ REQUIRED\n username="a\\"b\\\\c\\n\\101";'
    )
    assert jaas.option("username") == 'a"b\\c\nA'


def test_a_module_needs_no_options():
    assert parsed(f"{SCRAM_MODULE} optional;").options == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "lacks the class"),
        ('com.evil.Module required marker="x";', "names the login module"),
        (f"{PLAIN_MODULE} marker;", "has none of required"),
        (f'{PLAIN_MODULE} required marker="x"', "does not end"),
        (f"{PLAIN_MODULE} required marker;", "without `=`"),
        (f"{PLAIN_MODULE} required password=1marker;", "cannot be read"),
        (f"{PLAIN_MODULE} required password=;", "lacks the value"),
        (f'{PLAIN_MODULE} required password="marker;', "cannot be read"),
        (f"{PLAIN_MODULE} required; {PLAIN_MODULE} required;", "more than one"),
        (f'{PLAIN_MODULE} required ="marker";', "lacks the name"),
        ("x" * (MAX_JAAS_CHARACTERS + 1), "characters"),
    ],
)
def test_another_text_than_a_jaas_string_is_refused_without_its_secret(text: str, problem: str):
    with pytest.raises(UsageError, match=problem) as refused:
        parsed(text)
    assert "marker" not in refused.value.message + refused.value.hint
    assert SETTING in refused.value.message


def test_a_jaas_string_prints_no_secret():
    jaas = parsed(f'{PLAIN_MODULE} required username="alice" password="marker";')
    assert "marker" not in repr(jaas)
    assert "marker" not in f"{jaas.options['password']}"
