"""Goal: a node is formatted and run from Kafka's own file."""

import os
from pathlib import Path

import pytest

from tests.unit.cli.command import tidelog
from tests.unit.config.test_resolve import MINIMAL

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"


def properties(tmp_path: Path) -> Path:
    """A node's file with its data directory beside it."""
    file = tmp_path / "server.properties"
    file.write_text(MINIMAL.replace("log.dirs=data", f"log.dirs={tmp_path / 'data'}"))
    return file


def test_formatting_writes_the_directory_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command = ["format", properties(tmp_path), "--cluster-id", CLUSTER]
    done = tidelog(capsys, *command, "--output", "json")
    assert done.code == 0
    assert done.json["formatted"] is True
    assert "node.id=2" in (tmp_path / "data" / "meta.properties").read_text()
    again = tidelog(capsys, *command)
    assert again.code == 2
    assert "already formatted" in again.err
    left = tidelog(capsys, *command, "--ignore-formatted", "--output", "json")
    assert left.json["formatted"] is False


@pytest.mark.parametrize("cluster_id", ["", " ", "a\nb"])
def test_a_cluster_id_must_be_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, cluster_id: str
) -> None:
    done = tidelog(capsys, "format", properties(tmp_path), "--cluster-id", cluster_id)
    assert done.code == 2
    assert "is not a cluster id" in done.err
    assert not (tmp_path / "data").exists()


def test_the_server_replaces_this_process(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Method: `exec` is recorded, because it would end the test."""
    calls: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda path, argv: calls.append(argv))
    tidelog(capsys, "server", "f.properties", "--override", "a=1", "--override", "b=2")
    assert calls[0][1:] == [
        "-m",
        "tidelog.runtime.server",
        "f.properties",
        "--override",
        "a=1",
        "--override",
        "b=2",
    ]
