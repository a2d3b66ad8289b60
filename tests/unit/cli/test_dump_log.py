"""Goal: a dump can be compared, line by line, with the one of Kafka's own tool."""

import json
from pathlib import Path

import pytest

from tests.control_batches import build_control_batch
from tests.fixtures import kafka_dump_text, kafka_files
from tests.unit.cli.command import tidelog
from tidelog.kraft.messages import Voter
from tidelog.kraft.voters import encode_voters
from tidelog.model import Endpoint, Uuid
from tidelog.records.control import (
    ControlType,
    kraft_version_value,
    leader_change_value,
    snapshot_footer_value,
    snapshot_header_value,
)

METADATA = "__cluster_metadata-0/00000000000000000000.log"
SEGMENTS = sorted(
    name
    for name in kafka_files("node1")
    if name.endswith(".log") and not name.startswith("__") and not name.endswith("~")
)


@pytest.mark.parametrize("name", SEGMENTS)
def test_the_lines_are_kafkas_lines(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    """Method: byte for byte, but for the path in the first line."""
    path = tmp_path / Path(name).name
    path.write_bytes(kafka_files("node1")[name])
    # Kafka's dumps of `rolled` were made without the data.
    done = tidelog(capsys, "dump-log", "--deep" if "rolled" in name else "--print-data", path)
    assert done.code == 0
    ours = done.out.splitlines()
    assert ours[0] == f"Dumping {path}"
    assert ours[1:] == kafka_dump_text(name).splitlines()[1:]


def test_batches_alone_without_deep(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(kafka_files("node1")["plain-0/00000000000000000000.log"])
    lines = tidelog(capsys, "dump-log", path).out.splitlines()
    assert lines[1] == "Log starting offset: 0"
    assert all(line.startswith("baseOffset: ") for line in lines[2:])


def test_metadata_records_are_decoded(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(kafka_files("node1")[METADATA])
    out = tidelog(capsys, "dump-log", "--cluster-metadata-decoder", path).out
    assert ' payload: {"type":"TOPIC_RECORD","version":0,"data":{"name":"plain",' in out
    (change,) = [line for line in kafka_dump_text(METADATA).splitlines() if "LeaderChange" in line]
    assert change in out.splitlines()


def test_control_records_of_the_quorum_are_decoded(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Goal: who votes and where can be read from a segment or a snapshot."""
    voter = Voter(1, Uuid(bytes(range(16))), (Endpoint("CONTROLLER", "c1", 9093),), (0, 1))
    values = {
        ControlType.SNAPSHOT_HEADER: snapshot_header_value(12),
        ControlType.KRAFT_VERSION: kraft_version_value(1),
        ControlType.KRAFT_VOTERS: encode_voters({1: voter}),
        ControlType.LEADER_CHANGE: leader_change_value(1, (1, 2), (2,)),
        ControlType.SNAPSHOT_FOOTER: snapshot_footer_value(),
        99: b"new",
    }
    path = tmp_path / "00000000000000000007-0000000001.checkpoint"
    batches = [build_control_batch(kind, value, 5) for kind, value in values.items()]  # type: ignore[arg-type]
    path.write_bytes(b"".join(batches))
    out = tidelog(capsys, "dump-log", "--deep", path).out
    decoded = [line.partition("headerKeys: [] ")[2] for line in out.splitlines() if line[0] == "|"]
    assert decoded == [
        'SnapshotHeader {"version":0,"lastContainedLogTimestamp":12}',
        'KRaftVersion {"version":0,"kRaftVersion":1}',
        'KRaftVoters {"version":0,"voters":[{"voterId":1,'
        '"voterDirectoryId":"AAECAwQFBgcICQoLDA0ODw","endpoints":[{"name":"CONTROLLER",'
        '"host":"c1","port":9093}],"kRaftVersionFeature":{"minSupportedVersion":0,'
        '"maxSupportedVersion":1}}]}',
        'LeaderChange: {"version":0,"leaderId":1,"voters":[{"voterId":1},{"voterId":2}],'
        '"grantingVoters":[{"voterId":2}]}',
        'SnapshotFooter {"version":0}',
        "controlType: UNKNOWN(99)",
    ]
    batch = tidelog(capsys, "dump-log", "--deep", path, "--output", "json").json
    assert batch["records"][0]["control"] == {"type": "UNKNOWN", "type_id": 99}


def test_a_cut_control_record_is_damage(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(build_control_batch(ControlType.KRAFT_VERSION, kraft_version_value(1)[:3], 5))
    done = tidelog(capsys, "dump-log", "--deep", path)
    assert done.code == 1
    assert "damaged: unreadable KRaftVersion record" in done.out


def test_json_is_one_line_an_entry(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.timeindex"
    path.write_bytes(kafka_files("node1")["rolled-0/00000000000000000000.timeindex"])
    lines = tidelog(capsys, "dump-log", path, "--output", "json").out.splitlines()
    first, *rest = map(json.loads, lines)
    assert first == {"file": str(path), "kind": "file", "size_bytes": path.stat().st_size}
    assert {entry["kind"] for entry in rest} == {"timeindex"}


def test_damage_is_shown_and_is_code_1(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(kafka_files("node1")["epochs-0/00000000000000000000.log"][:-1])
    done = tidelog(capsys, "dump-log", path)
    assert done.code == 1
    assert "damaged at position" in done.out


def test_every_other_kind_has_its_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    names = {
        "rolled-0/00000000000000000000.index": "offset: ",
        "plain-0/00000000000000000218.snapshot": "producerId: ",
        "epochs-0/leader-epoch-checkpoint": "leaderEpoch: ",
        "replication-offset-checkpoint": "topic: ",
        "meta.properties": "cluster.id: ",
        "plain-0/partition.metadata": "topic_id: ",
    }
    for name, beginning in names.items():
        path = tmp_path / Path(name).name
        path.write_bytes(kafka_files("node1")[name])
        done = tidelog(capsys, "dump-log", path)
        assert done.code == 0, done.err
        assert any(line.startswith(beginning) for line in done.out.splitlines()[1:]), done.out
