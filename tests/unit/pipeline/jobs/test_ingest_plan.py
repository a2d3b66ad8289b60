"""What an ingest refuses before Spark starts, and what it takes."""

import json

import pytest

from tests.unit.client.scripted_brokers import ScriptedCluster, ScriptedPartition
from tests.unit.pipeline.log_directories import batches
from tidelog.errors import UsageError
from tidelog.model import TopicPartition
from tidelog.pipeline.jobs.ingest_plan import IngestPlan, prepare, prepare_all


@pytest.fixture
def brokers():
    with ScriptedCluster({TopicPartition("t", 0): ScriptedPartition(batches(2))}) as started:
        yield started


def test_paths_may_be_text(brokers, tmp_path):
    prepared = prepare(
        IngestPlan(
            brokers.bootstrap_servers, "t", f"{tmp_path}/table", checkpoint=f"{tmp_path}/checks"
        )
    )
    assert prepared.table.address.directory == tmp_path / "table"
    assert (tmp_path / "checks" / "tidelog-ingest.json").is_file()
    inside = IngestPlan(brokers.bootstrap_servers, "t", f"file://{tmp_path}/table")
    assert inside.checkpoint_directory == tmp_path / "table" / "_checkpoints" / "t"


def test_an_address_that_is_not_served_makes_no_directory(brokers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="not served"):
        prepare(IngestPlan(brokers.bootstrap_servers, "t", "hdfs://b/x"))
    assert list(tmp_path.iterdir()) == []


def test_when_one_of_several_topics_is_missing_nothing_is_written(brokers, tmp_path):
    plans = [IngestPlan(brokers.bootstrap_servers, name, tmp_path / "x") for name in ("t", "nix")]
    with pytest.raises(UsageError, match="topic `nix` does not exist"):
        prepare_all(plans)
    assert list(tmp_path.iterdir()) == []


def test_a_time_to_begin_at_is_offsets_from_then_on(brokers, tmp_path):
    """Given to Spark as well, it would win over the offsets where the table ends."""
    options = {"startingTimestamp": "0", "failOnDataLoss": "false"}
    prepared = prepare(
        IngestPlan(brokers.bootstrap_servers, "t", tmp_path / "table", options=options)
    )
    read = prepared.plan.source_options(prepared.starting)
    assert "startingTimestamp" not in read
    assert read["failOnDataLoss"] == "false"
    assert json.loads(read["startingOffsets"]) == {"t": {"0": 0}}
    assert prepared.identity.options == {"startingTimestamp": "0"}
