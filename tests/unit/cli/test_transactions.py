"""Goal: transactions are shown, found and aborted, and exit codes report it."""

import pytest

from tests.unit.cli.command import tidelog
from tests.unit.client.test_transactions import LATE_MS, OLD_MS, Cluster
from tidelog.errors import ErrorCode


@pytest.fixture
def cluster():
    found = Cluster()
    with found.brokers:
        yield found


@pytest.fixture
def run(capsys, cluster):
    where = ("--bootstrap-server", cluster.brokers.bootstrap_servers)
    return lambda *words: tidelog(capsys, "transactions", *words, *where)


def test_ids_are_listed_and_described(run, cluster):
    cluster.ids = {"copier": (1, [0])}
    assert run("list", "--output", "json").json == [
        {"transactional_id": "copier", "state": "Ongoing", "producer_id": 1, "coordinator": 1}
    ]
    assert "copier" in run("list").out
    found = run("describe", "copier", "--output", "json").json
    assert (found["state"], found["start_ms"]) == ("Ongoing", OLD_MS)
    assert found["partitions"] == [{"topic": "orders", "partition": 0}]
    assert "orders-0" in run("describe", "copier").out
    done = run("describe", "unknown")
    assert done.code == 1
    assert "`tidelog transactions list`" in done.err


def test_a_hanging_one_is_found_and_aborted(run, cluster):
    cluster.producers = {3: (30, OLD_MS), 4: (40, LATE_MS)}
    done = run("find-hanging", "--output", "json")
    assert done.code == 1
    assert [(each["topic"], each["start_offset"]) for each in done.json] == [("orders", 30)]
    assert "30" in run("find-hanging").out
    where = ("--topic", "orders", "--partition", "0", "--start-offset", "30")
    assert "aborted the transaction of producer 3" in run("abort", *where).out
    assert run("find-hanging").code == 0
    done = run("abort", *where)
    assert done.code == 1
    assert "`tidelog transactions find-hanging`" in done.err


def test_a_marker_that_is_refused(run, cluster):
    cluster.producers = {3: (30, OLD_MS)}
    cluster.marker_codes = [ErrorCode.INVALID_PRODUCER_EPOCH]
    done = run("abort", "--topic", "orders", "--partition", "0", "--start-offset", "30")
    assert done.code == 1
    assert "look again" in done.err
