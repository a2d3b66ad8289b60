"""Goal: topics are asked for and shown as the cluster has them, against a scripted node."""

from typing import Any

import pytest

from tests.unit.cli.command import tidelog
from tests.unit.client.responses import cluster, created, moving, topic_page
from tests.unit.client.scripted_brokers import ScriptedBrokers
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey


def test_create_sends_what_was_asked(capsys: pytest.CaptureFixture[str]) -> None:
    answer = created("orders", ErrorCode.NONE)
    with ScriptedBrokers({ApiKey.CREATE_TOPICS: lambda _: answer}) as node:
        done = tidelog(
            capsys,
            *("topics", "create", "orders", "--bootstrap-server", node.bootstrap_servers),
            *("--partitions", 6, "--replication-factor", 3),
            *("--config", "min.insync.replicas=2", "--output", "json"),
        )
        topic = node.requests[0].topics[0]
    assert done.json == {"topic": "orders", "created": True}
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("orders", 6, 3)
    assert [(c.name, c.value) for c in topic.configs] == [("min.insync.replicas", "2")]


def test_an_existing_topic_is_an_error_unless_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    answer = created("orders", ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'orders' already exists.")
    with ScriptedBrokers({ApiKey.CREATE_TOPICS: lambda _: answer}) as node:
        command = ["topics", "create", "orders", "--bootstrap-server", node.bootstrap_servers]
        refused = tidelog(capsys, *command)
        allowed = tidelog(capsys, *command, "--if-not-exists", "--output", "json")
    assert refused.code == 1
    assert "already exists" in refused.err
    assert allowed.code == 0
    assert allowed.json == {"topic": "orders", "created": False}


def configs(_: Any) -> Any:
    """One override and one default of topic `t`."""

    def row(name: str, value: str, source: int) -> Any:
        return {
            "name": name,
            "value": value,
            "read_only": False,
            "config_source": source,
            "is_sensitive": False,
            "synonyms": [],
            "config_type": 0,
            "documentation": None,
        }

    rows = [row("retention.ms", "5", 1), row("segment.ms", "9", 5)]
    return {"results": [{"resource_type": 2, "resource_name": "t", "configs": rows}]}


def test_describe_shows_what_is_known_and_question_marks_for_the_rest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers = {
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: lambda _: topic_page("t", [0]),
        ApiKey.DESCRIBE_CONFIGS: configs,
        ApiKey.DESCRIBE_CLUSTER: lambda _: cluster((1, "127.0.0.1", 1, True)),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: lambda _: moving("t", 0, adding=[2], removing=[1]),
    }
    with ScriptedBrokers(answers) as node:
        command = ["topics", "describe", "t", "--bootstrap-server", node.bootstrap_servers]
        table = tidelog(capsys, *command)
        (topic,) = tidelog(capsys, *command, "--output", "json").json
    assert "retention.ms=5" in table.out
    assert "segment.ms" not in table.out
    assert "water-" in table.out
    assert "ELR" in table.out
    assert "?" in table.out
    assert topic["configs"] == {"retention.ms": "5"}
    assert topic["partitions"][0]["eligible_leaders"] == [2]
    assert (topic["partitions"][0]["adding"], topic["partitions"][0]["removing"]) == ([2], [1])
    assert "adding 2" in table.out
    assert "removing 1" in table.out
    assert topic["partitions"][0]["replica_logs"][0]["high_watermark"] == -1


def test_the_table_of_three_replicas_fits_eighty_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: lambda _: topic_page("t", [0]),
        ApiKey.DESCRIBE_CONFIGS: configs,
        ApiKey.DESCRIBE_CLUSTER: lambda _: cluster((1, "127.0.0.1", 1, True)),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: lambda _: moving("t", 9, adding=[2], removing=[1]),
    }
    monkeypatch.setenv("COLUMNS", "80")
    with ScriptedBrokers(answers) as node:
        command = ["topics", "describe", "t", "--bootstrap-server", node.bootstrap_servers]
        table = tidelog(capsys, *command)
    assert all(len(line) <= 80 for line in table.out.splitlines())
    assert "…" not in table.out


@pytest.mark.parametrize(
    ("name", "hint"),
    [("retention.m", "did you mean `retention.ms`?"), ("nosuch", "retention.ms, segment.ms")],
)
def test_an_unknown_config_is_not_deleted(
    capsys: pytest.CaptureFixture[str], name: str, hint: str
) -> None:
    with ScriptedBrokers({ApiKey.DESCRIBE_CONFIGS: configs}) as node:
        command = ["topics", "alter", "t", "--bootstrap-server", node.bootstrap_servers]
        done = tidelog(capsys, *command, "--delete-config", name)
        asked = [type(question).__name__ for question in node.requests]
    assert done.code == 2
    assert f"`{name}` is not a topic configuration" in done.err
    assert hint in done.err
    assert asked == ["DescribeConfigsRequest"]


def test_a_missing_topic_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    missing = topic_page("nope", [], code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    with ScriptedBrokers({ApiKey.DESCRIBE_TOPIC_PARTITIONS: lambda _: missing}) as node:
        done = tidelog(
            capsys, "topics", "describe", "nope", "--bootstrap-server", node.bootstrap_servers
        )
    assert done.code == 1
    assert "describe topic `nope`: the topic does not exist" in done.err
    assert "hint: list the topics with `tidelog topics list`" in done.err


@pytest.mark.parametrize(
    "wrong",
    [
        ("create", "x", "--replication-factor", "40000"),
        ("create", "x", "--partitions", "3000000000"),
        ("alter", "x", "--partitions", "5000000000"),
    ],
)
def test_numbers_that_a_request_cannot_carry_are_refused(
    capsys: pytest.CaptureFixture[str], wrong: tuple[str, ...]
) -> None:
    done = tidelog(capsys, "topics", *wrong, "--bootstrap-server", "127.0.0.1:1")
    assert done.code == 2
    assert "less than or equal to" in done.err
