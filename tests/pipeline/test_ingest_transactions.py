"""Transactions of the brokers under an ingest: what was aborted is not in the table."""

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from tidelog.pipeline.jobs.ingest import ingest
from tidelog.pipeline.jobs.ingest_plan import IngestPlan, prepare
from tidelog.pipeline.jobs.table import faults, read_accounts, read_quarantine, read_table, row_key
from tidelog.pipeline.tables.upserts import Upsert

pytestmark = pytest.mark.spark


def _transact(producer, topic, keys, value, *, commit):
    producer.begin_transaction()
    for key in keys:
        producer.produce(topic, value, key=key)
    producer.flush()
    if commit:
        producer.commit_transaction()
    else:
        producer.abort_transaction()


@pytest.mark.parametrize("upsert", [None, Upsert()], ids=["append", "upsert"])
def test_records_of_an_aborted_transaction_are_not_in_the_table(spark, cluster, tmp_path, upsert):
    """On real nodes; by default."""
    topic = "aborted-rows" if upsert is None else "aborted-changes"
    cluster.create_topic(topic, partitions=1, replication_factor=3)
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": topic, "log_level": 0}
    )
    producer.init_transactions()
    _transact(producer, topic, [b"a", b"b"], b"kept", commit=True)
    _transact(producer, topic, [b"b", b"c", b"d"], b"aborted", commit=False)
    _transact(producer, topic, [b"d"], b"kept", commit=True)
    place = cluster.bootstrap_servers, topic, tmp_path / "table"
    done = ingest(spark, prepare(IngestPlan(*place, upsert=upsert)))
    # Two records and a marker, three and a marker, one and a marker.
    assert done.positions == {f"{topic}:0": 9}
    assert (done.rows, done.control_rows, done.gap_rows, done.violations) == (3, 6, 0, ())
    rows = DeltaTable(str(tmp_path / "table")).to_pyarrow_table().to_pylist()
    assert {(row["key"], row["value"], row["offset"]) for row in rows} == {
        (b"a", b"kept", 0),
        (b"b", b"kept", 1),
        (b"d", b"kept", 7),
    }
    whole = (
        read(spark, tmp_path / "table") for read in (read_table, read_accounts, read_quarantine)
    )
    assert faults(*whole, row_key(tmp_path / "table")) == []
