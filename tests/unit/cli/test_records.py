"""Goal: a deletion is asked of the leader, and every refusal has a hint."""

from typing import Any

import pytest

from tests.unit.cli.command import tidelog
from tests.unit.client.responses import cluster, deleted_records, topic_page
from tests.unit.client.scripted_brokers import ScriptedBrokers
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey


def delete(
    capsys: pytest.CaptureFixture[str], code: ErrorCode, *more: object, before_offset: int = 7
) -> tuple[Any, list[Any]]:
    """The command against a leader that answers so; what it printed, and the requests."""
    answers: dict[ApiKey, Any] = {
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: lambda _: topic_page("orders", [0]),
        ApiKey.DELETE_RECORDS: lambda _: deleted_records("orders", 0, code, 7),
    }
    with ScriptedBrokers(answers) as node:
        answers[ApiKey.DESCRIBE_CLUSTER] = lambda _: cluster((1, "127.0.0.1", node.port, False))
        where = ("--bootstrap-server", node.bootstrap_servers)
        what = ("--topic", "orders", "--partition", 0, "--before-offset", before_offset)
        done = tidelog(capsys, "records", "delete", *what, *where, *more)
        asked = [r for r in node.requests if getattr(r, "__api_key__", -1) == ApiKey.DELETE_RECORDS]
    return done, asked


def test_the_leader_is_asked_and_the_low_watermark_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    done, (request,) = delete(capsys, ErrorCode.NONE, "--output", "json")
    assert done.json == {"topic": "orders", "partition": 0, "low_watermark": 7}
    (topic,) = request.topics
    assert (topic.name, topic.partitions[0].partition_index, topic.partitions[0].offset) == (
        "orders",
        0,
        7,
    )
    done, _ = delete(capsys, ErrorCode.NONE)
    assert done.out == "`orders-0` starts at 7\n"


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (ErrorCode.OFFSET_OUT_OF_RANGE, "shows the high watermark"),
        (ErrorCode.POLICY_VIOLATION, "cleanup.policy=compact,delete"),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, "correct the command"),
    ],
)
def test_a_refusal_has_a_hint(
    capsys: pytest.CaptureFixture[str], code: ErrorCode, hint: str
) -> None:
    done, _ = delete(capsys, code)
    assert done.code == 1
    assert code.name in done.err and "`orders-0`" in done.err
    assert hint in done.err


def test_offsets_that_do_not_exist_are_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    done, asked = delete(capsys, ErrorCode.NONE, before_offset=-2)
    assert (done.code, asked) == (2, [])
