"""Goal: entries are added, listed and removed, and wrong words are named."""

import pytest

from tests.unit.cli.command import tidelog
from tests.unit.client.test_acls import Entries
from tidelog.errors import ErrorCode


@pytest.fixture
def entries():
    found = Entries()
    with found.brokers:
        yield found


@pytest.fixture
def run(capsys, entries):
    where = ("--bootstrap-server", entries.brokers.bootstrap_servers)
    return lambda *words: tidelog(capsys, "acls", *words, *where)


ADA = ("--allow-principal", "User:ada")


def test_entries_are_added_listed_and_removed(run):
    run("add", *ADA, "--operation", "read", "--operation", "describe-configs", "--topic", "orders")
    listed = run("list", "--topic", "orders", "--output", "json").json
    assert [(each["operation"], each["permission"], each["host"]) for each in listed] == [
        ("READ", "ALLOW", "*"),
        ("DESCRIBE_CONFIGS", "ALLOW", "*"),
    ]
    assert "DESCRIBE_CONFIGS" in run("list").out
    assert len(run("remove", "--topic", "orders", "--output", "json").json) == 2
    assert run("list", "--output", "json").json == []


def test_a_denial_may_name_a_prefix_an_address_and_several_resources(run):
    run(
        *("add", "--deny-principal", "User:eve", "--operation", "all", "--host", "10.0.0.1"),
        *("--topic", "or", "--group", "g", "--cluster", "--resource-pattern-type", "prefixed"),
    )
    listed = run("list", "--output", "json").json
    assert [each["resource_type"] for each in listed] == ["TOPIC", "GROUP", "CLUSTER"]
    assert {each["permission"] for each in listed} == {"DENY"}
    assert {each["host"] for each in listed} == {"10.0.0.1"}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("add", "--topic", "t", "--operation", "read"), "allows or denies"),
        (("add", *ADA, "--operation", "read"), "needs a resource"),
        (("add", *ADA, "--topic", "t"), "needs a resource"),
        (("add", *ADA, "--topic", "t", "--operation", "eat"), "`eat`"),
        (("list", "--resource-pattern-type", "regex"), "`regex`"),
        (("list", "--topic", "t", "--group", "g"), "several resources"),
        (("remove",), "which entries"),
    ],
)
def test_wrong_use_is_named(run, words, problem):
    done = run(*words)
    assert done.code == 2
    assert problem in done.err
    assert "hint:" in done.err


def test_a_cluster_without_an_authorizer_says_so(run, entries):
    entries.code = ErrorCode.SECURITY_DISABLED
    done = run("list")
    assert done.code == 1
    assert "`authorizer.class.name`" in done.err
