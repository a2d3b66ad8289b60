"""Goal: each line of stdin is a record, where and what the options say."""

import os
from itertools import count

import pytest

from tests.unit.cli.command import tidelog
from tests.unit.client.scripted_brokers import ScriptedCluster, ScriptedPartition
from tidelog.client.core.partitioning import partition_of_key
from tidelog.errors import ErrorCode
from tidelog.model import ZERO_TOPIC_ID, TopicPartition
from tidelog.records.batch import decode_batch
from tidelog.wire import produce as wire
from tidelog.wire.api import ApiKey


@pytest.fixture
def cluster():
    found = ScriptedCluster(
        {TopicPartition("orders", n): ScriptedPartition([], leader=1) for n in range(3)}
    )
    found.written = []
    found.code = ErrorCode.NONE
    offsets = count()

    def answer(asked):
        rows = []
        for each in asked.partitions:
            if found.code is ErrorCode.NONE:
                found.written += [
                    (each.partition, record.key, record.value, record.headers)
                    for record in decode_batch(each.records)
                ]
            rows.append(
                wire.ProducedPartition(
                    "orders", ZERO_TOPIC_ID, each.partition, found.code, next(offsets), -1, 0
                )
            )
        return wire.ProduceResponse(rows)

    found.answers[ApiKey.PRODUCE] = answer
    found.answers[ApiKey.INIT_PRODUCER_ID] = lambda _: {"producer_id": 9, "producer_epoch": 0}
    with found:
        yield found


@pytest.fixture
def produce(capsys, monkeypatch, cluster):
    def run(text, *words):
        reading, writing = os.pipe()
        os.write(writing, text)
        os.close(writing)
        where = ("--bootstrap-server", cluster.bootstrap_servers)
        with os.fdopen(reading) as stdin:
            monkeypatch.setattr("sys.stdin", stdin)
            return tidelog(capsys, "produce", "orders", *words, *where)

    return run


def test_lines_are_values(produce, cluster):
    done = produce(b"a\n\nlast", "--output", "json")
    assert done.code == 0
    assert [value for _, _, value, _ in cluster.written] == [b"a", b"", b"last"]
    assert done.json["records"] == 3
    assert sum(each["records"] for each in done.json["partitions"]) == 3


def test_keys_decide_the_partition(produce, cluster):
    produce(b"k1:a\nk2:b\nk3:c:d\n", "--format", "{key}:{value}", "--header", "h=1")
    assert sorted(cluster.written) == sorted(
        (partition_of_key(key, 3), key, value, (("h", b"1"),))
        for key, value in ((b"k1", b"a"), (b"k2", b"b"), (b"k3", b"c:d"))
    )


def test_one_key_and_one_partition_for_all(produce, cluster):
    produce(b"a\nb\n", "--key", "k", "--partition", "1")
    assert cluster.written == [(1, b"k", b"a", ()), (1, b"k", b"b", ())]


def test_json(produce, cluster):
    produce(
        b'{"key": "k", "value": null, "headers": [["a", {"base64": "/w=="}]]}\n', "--format", "json"
    )
    assert cluster.written == [(partition_of_key(b"k", 3), b"k", None, (("a", b"\xff"),))]


def test_nothing_to_write(produce, cluster):
    assert produce(b"").out == "wrote 0 records to `orders`\n"


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("--partition", "3"), 1, "no partition `3`"),
        (("--format", "{value} {key}"), 2, "lines cannot be read"),
        (("--format", "json"), 1, "line 1 is not a record"),
        (("--header", "h"), 2, "is not NAME=VALUE"),
    ],
)
def test_what_is_refused(produce, cluster, words, code, text):
    done = produce(b"a\n", *words)
    assert done.code == code
    assert text in done.err and "hint: " in done.err
    assert cluster.written == []


def test_a_refused_record(produce, cluster):
    cluster.code = ErrorCode.INVALID_RECORD
    done = produce(b"a\n")
    assert done.code == 1
    assert "takes only records with a key" in done.err
