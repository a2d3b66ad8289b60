"""Goal: rules make principals of names as KIP-371 has it."""

import pytest

from tidelog.errors import UsageError
from tidelog.model import ANONYMOUS
from tidelog.security.principal_mapping import PrincipalRules

NAME = "CN=Alice,OU=Eng,O=Tide"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", NAME),
        ("", NAME),
        ("RULE:^CN=(.*?),.*$/$1/", "Alice"),
        ("RULE:^CN=(.*?),.*$/$1/L", "alice"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$2-$1/U", "ENG-ALICE"),
        ("RULE:^CN=Alice$/no/, RULE:^CN=(.*?),.*$/$1@x/L , DEFAULT", "alice@x"),
        ("RULE:^CN=Alice$/no/,DEFAULT", NAME),
        ("RULE:^CN=Alice$/no/", None),
        ("RULE:^CN=(.*?),.*$/$2$10\\$1/", "$2Alice0$1"),
        (r"RULE:^CN=(\w+),OU=\w+,O=[^\/]+$/$1\/x/", "Alice/x"),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_counts(rules: str, name: str | None) -> None:
    assert PrincipalRules(rules).name_of(NAME) == name


@pytest.mark.parametrize("rules", ["RULE:^CN=(/$1/", "RULE:a/b", "RULE:a/b/X", "CN", "DEFAULT;x"])
def test_what_is_not_a_rule_is_refused(rules: str) -> None:
    with pytest.raises(UsageError, match="not a list of rules"):
        PrincipalRules(rules)


def test_no_certificate_is_anonymous_and_an_unreadable_one_has_no_principal() -> None:
    assert PrincipalRules().principal_of(None) == ANONYMOUS
    assert PrincipalRules().principal_of(b"\x30\x05") is None
