"""Principals in the words of access control lists."""

from tidelog.model import ANONYMOUS, Principal


def test_a_principal_has_the_form_of_an_access_control_list():
    assert str(Principal("User", "alice")) == "User:alice"
    assert str(ANONYMOUS) == "User:ANONYMOUS"


def test_names_of_principals_may_have_colons():
    assert Principal.parse("User:a:b") == Principal("User", "a:b")
