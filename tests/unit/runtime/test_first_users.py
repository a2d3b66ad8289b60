"""`--add-scram`: Kafka's words, and what is refused."""

import base64

import pytest

from tidelog.controller.bootstrap import bootstrap_file, first_records
from tidelog.errors import UsageError
from tidelog.metadata.scram_keys import salt_password, scram_record
from tidelog.model import Mechanism
from tidelog.runtime.first_users import parse_first_users

SALT = base64.b64encode(b"salt").decode()


def test_a_password_is_salted_and_forgotten():
    (user,) = parse_first_users(['SCRAM-SHA-512=[name=alice,password="a marker",salt=c2FsdA==]'])
    salted = salt_password(Mechanism.SCRAM_SHA_512, "a marker", b"salt", 4096)
    assert user == scram_record("alice", Mechanism.SCRAM_SHA_512, salted, b"salt", 4096)


def test_a_salted_password_is_taken_as_it_is():
    salted = salt_password(Mechanism.SCRAM_SHA_256, "secret", b"salt", 8192)
    text = base64.b64encode(salted).decode()
    (user,) = parse_first_users(
        [f'SCRAM-SHA-256=[name=bob,iterations=8192,salt="{SALT}",saltedpassword="{text}"]']
    )
    assert user == scram_record("bob", Mechanism.SCRAM_SHA_256, salted, b"salt", 8192)


def test_every_user_has_another_salt():
    text = "SCRAM-SHA-256=[name={},password=p]"
    one, other = parse_first_users([text.format("one"), text.format("other")])
    assert one.salt != other.salt
    assert min(len(one.salt), len(other.salt)) > 16


@pytest.mark.parametrize(
    "text",
    [
        "PLAIN=[name=a,password=marker]",
        "SCRAM-SHA-256=name=a,password=marker",
        "SCRAM-SHA-256=[password=marker]",
        "SCRAM-SHA-256=[name=a]",
        "SCRAM-SHA-256=[name=a,password=marker,saltedpassword=bWFya2Vy]",
        "SCRAM-SHA-256=[name=a,saltedpassword=bWFya2Vy]",
        "SCRAM-SHA-256=[name=a,password=marker,iterations=4095]",
        "SCRAM-SHA-256=[name=a,password=marker,iterations=16385]",
        "SCRAM-SHA-256=[name=a,password=marker,salt=?]",
        "SCRAM-SHA-256=[name=a,password=mar,ker]",
        "SCRAM-SHA-256=[name=a,name=b,password=marker]",
    ],
)
def test_what_makes_no_user_is_refused_without_the_password(text: str):
    with pytest.raises(UsageError) as refused:
        parse_first_users([text])
    assert "marker" not in refused.value.message + refused.value.hint


def test_a_user_is_named_once_for_each_mechanism():
    text = "SCRAM-SHA-{}=[name=a,password=p]"
    assert len(parse_first_users([text.format(256), text.format(512)])) == 2
    with pytest.raises(UsageError, match="twice"):
        parse_first_users([text.format(256)] * 2)


def test_the_file_keeps_the_users():
    users = parse_first_users(["SCRAM-SHA-256=[name=a,password=p]"])
    assert first_records(bootstrap_file(users, 17)).users == users
