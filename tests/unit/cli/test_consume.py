"""Goal: what is printed is what is there; a group's offsets are what was printed."""

import pytest

from tests.unit.cli.command import tidelog
from tests.unit.client.scripted_brokers import ScriptedCluster, ScriptedPartition
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.wire.api import ApiKey

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def batch(base, *values):
    records = [Record(1000 + base, None, value.encode()) for value in values]
    return build_batch(records, base_offset=base)


@pytest.fixture
def cluster():
    found = ScriptedCluster(
        {
            P0: ScriptedPartition([batch(0, "a", "b"), batch(2, "c")]),
            P1: ScriptedPartition([batch(4, "d")], leader=2, log_start=4),
        }
    )
    found.states = {"idle": "Empty", "busy": "Stable"}
    found.answers[ApiKey.LIST_GROUPS] = lambda _: {
        "groups": [
            {"group_id": name, "protocol_type": "consumer", "group_state": state}
            | {"group_type": "classic"}
            for name, state in found.states.items()
        ]
    }
    found.answers[ApiKey.OFFSET_FETCH] = lambda asked: {
        "groups": [
            {
                "group_id": "idle",
                "topics": [
                    {
                        "name": tp.topic,
                        "partitions": [
                            {"partition_index": tp.partition, "committed_offset": offset}
                            | {"committed_leader_epoch": -1, "metadata": ""}
                        ],
                    }
                    for tp, offset in found.committed.get("idle", {}).items()
                ],
            }
        ]
    }
    with found:
        yield found


@pytest.fixture
def consume(capsys, cluster):
    where = ("--bootstrap-server", cluster.bootstrap_servers)
    return lambda *words: tidelog(capsys, "consume", "orders", *words, *where)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ((), ["a", "b", "c", "d"]),
        (("--from", "latest"), []),
        (("--from", "1"), ["b", "c", "d"]),
        # Not older than the second batch.
        (("--from", "1970-01-01T00:00:01.002Z"), ["c", "d"]),
        (("--partition", "1"), ["d"]),
        (("--partition", "0", "--max-records", "2"), ["a", "b"]),
        (("--format", "{partition} {offset}", "--partition", "1"), ["1 4"]),
    ],
)
def test_what_is_printed(consume, words, shown):
    done = consume(*words)
    assert (done.code, sorted(done.out.splitlines())) == (0, shown)


def test_a_group_goes_on_behind_what_was_printed(consume, cluster):
    words = ("--group", "idle", "--partition", "0")
    assert consume(*words, "--max-records", "1").out == "a\n"
    assert cluster.committed == {"idle": {P0: 1}}
    assert consume(*words).out == "b\nc\n"
    assert cluster.committed == {"idle": {P0: 3}}
    assert consume(*words).out == ""


def test_a_group_with_members_is_refused(consume, cluster):
    done = consume("--group", "busy")
    assert (done.code, done.out) == (1, "")
    assert "stop them first" in done.err
    cluster.on_commit = lambda: ErrorCode.UNKNOWN_MEMBER_ID
    done = consume("--group", "idle")
    assert done.code == 1
    assert "stop them first" in done.err


def test_what_comes_later_is_followed(consume, cluster):
    def write(node, offset):
        if offset == 3:
            cluster.partitions[P0].batches.append(batch(3, "e"))

    cluster.partitions[P0].on_fetch = write
    words = ("--follow", "--from", "latest", "--partition", "0")
    assert consume(*words, "--max-records", "1").out == "e\n"
    cluster.partitions[P0].on_fetch = lambda node, offset: None
    done = consume(*words, "--timeout", "0.01")
    assert done.code == 3
    assert "no record came for 0.01 s" in done.err


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("--timeout", "1"), 2, "`--timeout` is for `--follow`"),
        (("--format", "{color}"), 2, "names no field"),
        (("--from", "soon"), 2, "is not a place"),
        (("--partition", "5"), 1, "no partition `5`"),
    ],
)
def test_what_is_refused(consume, words, code, text):
    done = consume(*words)
    assert (done.code, done.out) == (code, "")
    assert text in done.err and "hint: " in done.err


def test_records_that_are_gone(consume, cluster):
    cluster.committed["idle"] = {P1: 1}
    done = consume("--group", "idle", "--partition", "1")
    assert done.code == 1
    assert "offset `1` of `orders-1` is not there" in done.err
