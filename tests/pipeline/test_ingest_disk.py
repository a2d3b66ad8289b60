"""What others do to the place of a table under an ingest: they delete it, or fill its disk."""

import json
import re
import shutil
import subprocess
import sys
from hashlib import shake_256

import pytest
from deltalake import DeltaTable

from tests.unit.client.scripted_brokers import ScriptedCluster, ScriptedPartition
from tests.unit.pipeline.log_directories import batch, batches
from tidelog.errors import UsageError
from tidelog.model import TopicPartition
from tidelog.pipeline.errors import TableDamaged
from tidelog.pipeline.jobs.ingest import BatchWriter, ingest
from tidelog.pipeline.jobs.ingest_plan import IngestPlan, prepare

pytestmark = pytest.mark.spark

_P0 = TopicPartition("t", 0)
_ON_A_SMALL_DISK = """
mount -t tmpfs -o size=2m small "$0" || exit 9
"$@"; echo "code=$?" >&2
mount -o remount,size=64m "$0" && "$@"; code=$?
cp -r "$0"/table "$0".kept; exit $code
"""
"""The mount is the shell's own, and ends with it."""
_WITH_SMALL_FILES = """
(ulimit -f 2048; "$@"); echo "code=$?" >&2
"$@"; code=$?
cp -r "$0"/table "$0".kept; exit $code
"""


def _deleting(place, monkeypatch):
    """Deletes a directory when the tasks of a batch have ended."""
    whole = BatchWriter._run_tasks

    def run_tasks(self, records, batch):
        done = whole(self, records, batch)
        shutil.rmtree(place)
        return done

    monkeypatch.setattr(BatchWriter, "_run_tasks", run_tasks)


@pytest.mark.parametrize("checkpoint", [None, "checkpoint"], ids=["inside", "outside"])
def test_a_table_that_is_deleted_under_a_batch_is_damaged(spark, tmp_path, monkeypatch, checkpoint):
    """With its checkpoint, if that is inside. Nothing of it is made anew."""
    place = tmp_path / "table"
    with ScriptedCluster({_P0: ScriptedPartition(batches(2))}) as brokers:
        directory = None if checkpoint is None else tmp_path / checkpoint
        plan = IngestPlan(brokers.bootstrap_servers, "t", place, checkpoint=directory)
        _deleting(place, monkeypatch)
        with pytest.raises(TableDamaged, match="its log `_delta_log` is gone"):
            ingest(spark, prepare(plan))
    assert not (place / "_continuity").exists() and not (place / "_delta_log").exists()


def test_a_checkpoint_that_is_deleted_under_a_batch_is_replaced_by_a_new_one(
    spark, tmp_path, monkeypatch
):
    with ScriptedCluster({_P0: ScriptedPartition(batches(2))}) as brokers:
        place = brokers.bootstrap_servers, "t", tmp_path / "table"
        with monkeypatch.context() as broken:
            _deleting(tmp_path / "checkpoint", broken)
            with pytest.raises(UsageError, match="no batch 0, which Spark has planned") as caught:
                ingest(spark, prepare(IngestPlan(*place, checkpoint=tmp_path / "checkpoint")))
        assert caught.value.hint.startswith("give a new `--checkpoint`")
        done = ingest(spark, prepare(IngestPlan(*place, checkpoint=tmp_path / "another")))
    assert (done.rows, done.violations) == (20, ())


def test_a_full_disk_is_named_and_with_space_the_same_command_goes_on(tmp_path):
    """A process of its own. Where this one may mount, the disk is a tmpfs; elsewhere files of the
    process may have 2 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    noise = [shake_256(b"%d" % number).digest(400_000) for number in range(12)]
    log = [batch(10 * number, value=value) for number, value in enumerate(noise)]
    can_mount = subprocess.run(["unshare", "-m", "true"], check=False).returncode == 0
    within = ["unshare", "-m"] if can_mount else []
    script = _ON_A_SMALL_DISK if can_mount else _WITH_SMALL_FILES
    with ScriptedCluster({_P0: ScriptedPartition(log)}) as brokers:
        command = [
            *(*within, "sh", "-c", script, str(disk)),
            *(sys.executable, "-m", "tidelog.cli.main", "spark", "ingest", "--topic", "t"),
            *("--table", str(disk / "table"), "--bootstrap-server", brokers.bootstrap_servers),
            *("--checkpoint", str(tmp_path / "checkpoint"), "--output", "json"),
            *("--master", "local[1]"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    first, _, second = done.stderr.partition("code=3\n")
    assert done.returncode == 0, done.stderr
    assert re.search(r"/table/topic=t/batch-00000000-\S+` cannot be written: ", first), done.stderr
    assert re.search("No space left|File too large", first)
    assert "hint: free space on its disk" in first.replace("\n", " ") and "cannot" not in second
    assert json.loads(done.stdout)["rows"] == 120
    assert len(DeltaTable(f"{disk}.kept").to_pyarrow_table(columns=["offset"])) == 120
