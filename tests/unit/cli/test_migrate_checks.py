"""Goal: what is wrong with a node's files is found before the node changes its kind."""

from pathlib import Path

import pytest

from tests.unit.broker.test_unserved import SNAPSHOT, disk_with, old_message
from tests.unit.cli.command import Done, tidelog
from tidelog.log.identity import format_directory
from tidelog.metadata import records
from tidelog.model import METADATA_PARTITION, Uuid
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.runtime.os_disk import OsDisk

PROPERTIES = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
controller.quorum.voters=1@localhost:9093
num.network.threads=3
"""


class Files:
    """A node's properties file and directory."""

    def __init__(self, place: Path, cluster_id: str = "one", node_id: int = 1) -> None:
        self.directory = place / "data"
        self.file = place / "server.properties"
        self.write("")
        self.disk = OsDisk(self.directory)
        format_directory(
            self.disk, cluster_id=cluster_id, node_id=node_id, directory_id=Uuid(b"d" * 16)
        )

    def write(self, more: str) -> None:
        self.file.write_text(f"{PROPERTIES}log.dirs={self.directory}\n{more}")

    def partition(self, batch: bytes) -> None:
        self.disk.make_dir("orders-0")
        self.disk.replace(f"orders-0/{0:020d}.log", batch)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def check(capsys: pytest.CaptureFixture[str], *files: Files) -> Done:
    given = [text for each in files for text in ("--properties", str(each.file))]
    return tidelog(capsys, "migrate", "check", *given, "--output", "json")


def hindering(done: Done) -> list[dict[str, str]]:
    found = [each for each in done.json["findings"] if each["severity"] == "hinders"]
    assert done.code == (1 if found else 0)
    assert all(each["hint"] for each in found)
    return found


BATCH = build_batch([Record(1, None, b"v")], base_offset=0, leader_epoch=0)


def test_a_node_that_fits_passes(capsys: pytest.CaptureFixture[str], files: Files) -> None:
    files.partition(BATCH)
    done = check(capsys, files)
    assert (done.code, done.json["fit"]) == (0, True)
    table = tidelog(capsys, "migrate", "check", "--properties", files.file)
    assert "0 hindrances" in table.out


def test_properties_without_effect_are_notes(
    capsys: pytest.CaptureFixture[str], files: Files
) -> None:
    files.write("log.preallocate=true\nremote.log.storage.system.enable=true\nnum.io.threads=8\n")
    done = check(capsys, files)
    assert hindering(done) == []
    reasons = [each["reason"] for each in done.json["findings"]]
    assert ["log.preallocate" in each for each in reasons] == [True, False, False]
    assert ["num.io.threads" in each for each in reasons] == [False, True, False]


def test_secrets_that_everybody_may_read_are_a_note(
    capsys: pytest.CaptureFixture[str], files: Files
) -> None:
    files.write("delegation.token.secret.key=s3cret\n")
    files.file.chmod(0o644)
    done = check(capsys, files)
    assert hindering(done) == []
    (note,) = (each for each in done.json["findings"] if "secrets" in each["reason"])
    assert "delegation.token.secret.key" in note["reason"] and "chmod 600" in note["hint"]
    assert "s3cret" not in done.out


def test_a_property_that_no_node_takes_hinders(
    capsys: pytest.CaptureFixture[str], files: Files
) -> None:
    files.write("zookeeper.metadata.migration.enable=true\n")
    (found,) = hindering(check(capsys, files))
    assert found["place"] == str(files.file)
    assert "zookeeper.metadata.migration.enable" in found["reason"]


def test_names_that_kafka_does_not_know_are_notes(
    capsys: pytest.CaptureFixture[str], files: Files
) -> None:
    files.write("inter.broker.protocol.version=3.9\nnum.partition=3\ncolour=red\n")
    done = check(capsys, files)
    assert hindering(done) == []
    hints = {each["reason"].split("`")[1]: each["hint"] for each in done.json["findings"][1:]}
    assert hints == {
        "colour": "the line may stay",
        "inter.broker.protocol.version": "remove it: versions are negotiated",
        "num.partition": "did you mean `num.partitions`?",
    }


def test_what_kafka_left_behind_hinders(capsys: pytest.CaptureFixture[str], files: Files) -> None:
    files.partition(old_message(1))
    (old_format,) = hindering(check(capsys, files))
    assert "message format 1" in old_format["reason"]


def test_features_and_records_of_a_newer_kafka_hinder(
    capsys: pytest.CaptureFixture[str], files: Files
) -> None:
    streams = records.FeatureLevelRecord(name="streams.version", feature_level=1)
    snapshot = disk_with(streams)
    files.disk.make_dir(str(METADATA_PARTITION))
    (name,) = [each for each in snapshot.list_dir(str(METADATA_PARTITION)) if "check" in each]
    path = f"{METADATA_PARTITION}/{name}"
    files.disk.replace(path, snapshot.read_file(path) or b"")
    (found,) = hindering(check(capsys, files))
    assert "`streams.version` is 1" in found["reason"]
    assert "downgrade" in found["hint"]
    newer = build_batch([Record(1, None, b"\x01\x7f\x00")], base_offset=SNAPSHOT.end_offset)
    files.disk.replace(f"{METADATA_PARTITION}/{SNAPSHOT.end_offset:020d}.log", newer)
    (found,) = hindering(check(capsys, files))
    assert "newer version" in found["reason"]
    assert found["place"].endswith(f"{SNAPSHOT.end_offset:020d}.log")


def test_the_era_of_zookeeper_hinders(capsys: pytest.CaptureFixture[str], files: Files) -> None:
    files.disk.replace("meta.properties", b"version=0\nbroker.id=1\ncluster.id=one\n")
    (found,) = hindering(check(capsys, files))
    assert "version `0`" in found["reason"]


def test_directories_of_another_node_or_cluster_hinder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, files: Files
) -> None:
    (tmp_path / "other").mkdir()
    other = Files(tmp_path / "other", "two", 2)
    (found,) = hindering(check(capsys, other))
    assert "node `2`" in found["reason"]
    more = f",{other.directory}"
    files.file.write_text(files.file.read_text().rstrip() + more + "\n")
    reasons = [each["reason"] for each in hindering(check(capsys, files))]
    assert any("different clusters" in reason for reason in reasons)


def test_wrong_use_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert tidelog(capsys, "migrate", "check").code == 2
    assert tidelog(capsys, "migrate", "check", "--properties", tmp_path / "none").code == 2
