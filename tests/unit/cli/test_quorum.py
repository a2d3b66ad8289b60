"""Goal: the quorum is shown with how far each voter is behind its leader."""

from typing import Any

import pytest

from tests.unit.cli.command import tidelog
from tests.unit.client.scripted_brokers import ScriptedBrokers
from tidelog.wire.api import ApiKey


def quorum(_: Any) -> Any:
    """Three voters, one of them behind, and no observer."""
    voters = [
        {
            "replica_id": i,
            "replica_directory_id": None,
            "log_end_offset": end,
            "last_fetch_timestamp": -1,
            "last_caught_up_timestamp": -1,
        }
        for i, end in ((1, 40), (2, 42), (3, 35))
    ]
    row = {
        "partition_index": 0,
        "leader_id": 2,
        "leader_epoch": 7,
        "high_watermark": 40,
        "current_voters": voters,
        "observers": [],
    }
    return {"topics": [{"topic_name": "__cluster_metadata", "partitions": [row]}], "nodes": []}


def test_the_quorum_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedBrokers({ApiKey.DESCRIBE_QUORUM: quorum}) as node:
        command = ["quorum", "describe", "--bootstrap-server", node.bootstrap_servers]
        table = tidelog(capsys, *command)
        found = tidelog(capsys, *command, "--output", "json").json
    assert "leader 2, epoch 7, high watermark 40" in table.out
    assert [(v["node_id"], v["lag"]) for v in found["voters"]] == [(1, 2), (2, 0), (3, 7)]
    assert found["observers"] == []
