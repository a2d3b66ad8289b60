"""Goal: groups are shown, reset and deleted, and every refusal has a hint."""

import pytest

from tests.unit.cli.command import tidelog
from tests.unit.client.scripted_groups import ScriptedGroup
from tidelog.errors import ErrorCode


@pytest.fixture
def group():
    found = ScriptedGroup()
    with found.brokers:
        yield found


@pytest.fixture
def run(capsys, group):
    where = ("--bootstrap-server", group.brokers.bootstrap_servers)
    return lambda *words: tidelog(capsys, "groups", *words, *where)


def test_groups_are_listed(run):
    done = run("list", "--output", "json")
    assert done.json == [
        {
            "group_id": "billing",
            "state": "Stable",
            "group_type": "classic",
            "protocol_type": "consumer",
            "coordinator": 1,
        }
    ]
    assert "billing" in run("list").out


def test_a_group_is_described(run):
    done = run("describe", "billing", "--output", "json")
    assert (done.code, done.json["state"], done.json["lag"]) == (0, "Stable", 5)
    assert [(each["committed_offset"], each["lag"]) for each in done.json["progress"]] == [
        (10, 0),
        (4, 5),
    ]
    table = run("describe", "billing").out
    assert "lag=5" in table and "m-1" in table


@pytest.mark.parametrize(
    ("words", "committed"),
    [
        (("--to", "earliest"), {0: 2, 1: 0}),
        (("--to", "latest"), {0: 10, 1: 9}),
        # Where the log has no such record, the nearest one that it has.
        (("--to", "1"), {0: 2, 1: 1}),
        (("--to", "500"), {0: 10, 1: 9}),
        (("--to", "earliest", "--partition", "1"), {0: 10, 1: 0}),
    ],
)
def test_offsets_are_reset(run, group, words, committed):
    done = run("reset-offsets", "billing", "--topic", "orders", *words, "--output", "json")
    assert done.code == 0
    assert group.committed == committed
    for row in done.json["offsets"]:
        assert committed[row["partition"]] == row["offset"]


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("--topic", "orders", "--to", "soon"), 2, "an offset or a time"),
        (("--topic", "orders", "--to", "1", "--partition", "5"), 1, "no partition `5`"),
        (("--topic", "nothing", "--to", "1"), 1, "the topic does not exist"),
    ],
)
def test_what_cannot_be_reset(run, group, words, code, text):
    done = run("reset-offsets", "billing", *words)
    assert done.code == code
    assert text in done.err and "hint: " in done.err
    assert group.committed == {0: 10, 1: 4}


def test_a_group_is_deleted(run, group):
    assert run("delete", "billing").out == "deleted group `billing`\n"
    group.code = ErrorCode.NON_EMPTY_GROUP
    done = run("delete", "billing")
    assert done.code == 1
    assert "stop its members first" in done.err


def test_a_group_that_does_not_exist(run, group):
    group.state = "Dead"
    done = run("describe", "billing")
    assert done.code == 1
    assert "`tidelog groups list`" in done.err


def test_a_dry_run_commits_nothing(run, group):
    words = ("--topic", "orders", "--to", "latest", "--dry-run", "--output", "json")
    done = run("reset-offsets", "billing", *words)
    assert not done.json["committed"]
    assert [row["offset"] for row in done.json["offsets"]] == [10, 9]
    assert group.committed == {0: 10, 1: 4}
