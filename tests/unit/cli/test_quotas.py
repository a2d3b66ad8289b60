"""Goal: quotas are added, listed and removed, and wrong words are named."""

import pytest

from tests.unit.cli.command import tidelog
from tests.unit.client.test_quotas import Kept
from tidelog.errors import ErrorCode


@pytest.fixture
def kept():
    found = Kept()
    with found.brokers:
        yield found


@pytest.fixture
def run(capsys, kept):
    where = ("--bootstrap-server", kept.brokers.bootstrap_servers)
    return lambda *words: tidelog(capsys, "quotas", *words, *where)


RATE = "producer_byte_rate=1000"


def test_quotas_are_added_listed_and_removed(run):
    both = ("--quota", RATE, "--quota", "request_percentage=12.5")
    run("add", "--user", "ada", *both)
    run("add", "--default", "user", "--default", "client-id", "--quota", RATE)
    run("add", "--ip", "10.0.0.1", "--quota", "connection_creation_rate=5")
    listed = run("list", "--user", "ada", "--output", "json").json
    assert [(each["name"], each["value"]) for each in listed] == [
        ("producer_byte_rate", 1000),
        ("request_percentage", 12.5),
    ]
    shown = run("list").out
    assert "10.0.0.1" in shown and "default" in shown and "12.5" in shown
    gone = run("remove", "--user", "ada", "--quota", "request_percentage", "--output", "json").json
    assert [each["name"] for each in gone] == ["request_percentage"]
    run("remove", "--user", "ada")
    assert run("list", "--user", "ada", "--output", "json").json == []


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("add", "--quota", RATE), "whose quotas"),
        (("add", "--user", "ada"), "which quotas"),
        (("add", "--user", "ada", "--quota", "producer_byte_rate"), "`producer_byte_rate`"),
        (("add", "--default", "topic", "--quota", RATE), "`topic`"),
        (("add", "--user", "ada", "--default", "user", "--quota", RATE), "its default too"),
        (("remove",), "whose quotas"),
        (("remove", "--user", "ada", "--quota", "speed"), "no quota `speed`"),
    ],
)
def test_wrong_words_are_named(run, words, problem):
    result = run(*words)
    assert result.code == 2
    assert problem in result.err and "hint:" in result.err


def test_a_refusal_has_a_hint(run, kept):
    kept.code = ErrorCode.INVALID_REQUEST
    result = run("add", "--user", "ada", "--quota", "producer_byte_rate=-1")
    assert result.code != 0
    assert "connection_creation_rate" in result.err
