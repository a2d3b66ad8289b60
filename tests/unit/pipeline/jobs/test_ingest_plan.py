"""What an ingest refuses before Spark starts, and what it takes."""

import json
from dataclasses import replace

import pytest

from tests.unit.client.scripted_brokers import TOPIC_ID, ScriptedCluster, ScriptedPartition
from tests.unit.pipeline.log_directories import batches
from tidelog.errors import UsageError
from tidelog.model import TopicPartition
from tidelog.pipeline.jobs.ingest_plan import IngestPlan, prepare, prepare_all
from tidelog.pipeline.tables.checkpoint import read_identity, write_identity
from tidelog.pipeline.tables.continuity import Continuity
from tidelog.pipeline.tables.table import BronzeTable, TableBatch


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
    assert prepared.identity.options == {
        "startingTimestamp": "0",
        "isolation.level": "read_committed",
    }


@pytest.fixture
def plan(brokers, tmp_path):
    def plan(**options) -> IngestPlan:
        return IngestPlan(brokers.bootstrap_servers, "t", tmp_path / "table", options=options)

    return plan


def _forget_the_level(plan):
    """As checkpoints were written when no level stood in them."""
    directory = plan.checkpoint_directory
    write_identity(directory, replace(read_identity(directory), options={}))


def test_a_new_ingest_reads_committed_records_and_goes_on_so(plan):
    first, again = prepare(plan()), prepare(plan())
    for prepared in (first, again):
        assert prepared.options.rules.read_committed
        assert prepared.plan.source_options("{}")["isolation.level"] == "read_committed"
        assert not prepared.identity.is_isolation_unsaid
    assert prepare(plan(**{"kafka.isolation.level": "READ_COMMITTED"})).identity == first.identity
    with pytest.raises(UsageError, match="= `read_committed`, not `read_uncommitted`"):
        prepare(plan(**{"isolation.level": "read_uncommitted"}))


def test_a_level_that_was_given_once_need_not_be_given_again(plan):
    prepare(plan(**{"Kafka.Isolation.Level": "read_uncommitted"}))
    assert not prepare(plan()).options.rules.read_committed


def test_a_checkpoint_without_a_level_goes_on_as_it_was_begun(plan):
    prepare(plan())
    _forget_the_level(plan())
    for options in ({}, {"isolation.level": "read_uncommitted"}):
        prepared = prepare(plan(**options))
        assert not prepared.options.rules.read_committed
        assert prepared.plan.source_options("{}")["isolation.level"] == "read_uncommitted"
        assert prepared.identity.is_isolation_unsaid
    with pytest.raises(UsageError, match="= `read_uncommitted`, not `read_committed`"):
        prepare(plan(**{"isolation.level": "read_committed"}))


def test_two_levels_are_refused(plan):
    both = {"isolation.level": "read_committed", "kafka.isolation.level": "read_uncommitted"}
    with pytest.raises(UsageError, match="given twice"):
        prepare(plan(**both))


def test_a_table_that_has_a_part_of_an_open_transaction_waits_for_its_end(brokers, plan, tmp_path):
    """Else the end of what is committed would look like a log that was cut."""
    table = BronzeTable.open(tmp_path / "table", "t", TOPIC_ID.hex())
    line = Continuity("t", 0, 0, 20, 20, 0, 0, 3, 3, 0, "ok")
    table.commit(TableBatch("an app", 0, (), (line,)))
    partition = brokers.partitions[TopicPartition("t", 0)]
    partition.last_stable_offset = 15
    with pytest.raises(UsageError, match="up to offset 20, and a transaction from 15 on is still"):
        prepare(plan())
    partition.last_stable_offset = 20
    assert prepare(plan()).identity.birth == {"t:0": 20}
