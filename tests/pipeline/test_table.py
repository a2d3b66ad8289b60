"""The rows of a table against its accounts, on tiny frames: each fault is named, and no other."""

import pytest
from pyspark.testing import assertDataFrameEqual

from tidelog.pipeline.jobs.table import Fault, account_faults, faults, key_faults, row_faults

pytestmark = pytest.mark.spark

_ROWS = [("t", 0, 5, 1), ("t", 0, 6, 1), ("t", 0, 8, 2), ("t", 1, 5, 0)]
_ACCOUNTS = [("t", 0, 5, 7, 2), ("t", 0, 7, 9, 1), ("t", 1, 5, 6, 1)]
_FAULTS = "topic string, partition int, kind string, offset long"


@pytest.fixture
def table(spark):
    """Rows (topic, partition, offset, epoch), accounts (topic, partition, start, end, rows) of a
    table from before there was a quarantine, and a quarantine like the rows."""

    def table(more_rows=(), accounts=_ACCOUNTS, rows=_ROWS, quarantine=()):
        return (
            spark.createDataFrame(
                [*rows, *more_rows], "topic string, partition int, offset long, leader_epoch int"
            ),
            spark.createDataFrame(
                [(*line, *[None] * (7 - len(line))) for line in accounts],
                "topic string, partition int, start long, end long, rows long, "
                "quarantined_rows long, grown_rows long",
            ),
            spark.createDataFrame(
                quarantine, "topic string, partition int, offset long, leader_epoch int"
            ),
        )

    return table


def test_a_table_that_matches_its_accounts_has_no_faults(table):
    assert faults(*table()) == []


def test_places_that_stand_twice_and_epochs_that_go_back_are_found(spark, table):
    rows, _, _ = table([("t", 1, 5, 0), ("t", 0, 7, 0), ("u", 0, 5, 0)])
    expected = [("t", 1, "DUPLICATE", 5), ("t", 0, "EPOCH_REGRESSION", 7)]
    assertDataFrameEqual(row_faults(rows), spark.createDataFrame(expected, _FAULTS))


def test_rows_that_no_account_has_and_accounts_without_rows_are_found(spark, table):
    faulty = table([("u", 3, 1, 0)], [*_ACCOUNTS, ("v", 0, 0, 2, 2)])
    expected = [("u", 3, "ROWS", 1), ("v", 0, "ROWS", -1)]
    assertDataFrameEqual(account_faults(*faulty), spark.createDataFrame(expected, _FAULTS))


def test_accounts_that_do_not_follow_each_other_are_found(spark, table):
    faulty = table(accounts=[("t", 0, 5, 7, 2), ("t", 0, 8, 9, 1), ("t", 1, 5, 6, 1)])
    expected = [("t", 0, "GAP", 8)]
    assertDataFrameEqual(account_faults(*faulty), spark.createDataFrame(expected, _FAULTS))


def test_faults_are_summed_up_by_partition_and_kind(table):
    found = faults(*table([("t", 0, 5, 1), ("t", 0, 6, 1)]))
    assert found == [Fault("t", 0, "DUPLICATE", 2, 5), Fault("t", 0, "ROWS", 1, 5)]
    assert str(found[0]) == "DUPLICATE `t-0`: 2 in the table, the first at offset 5"


def test_a_table_of_upserts_has_as_many_rows_as_it_grew_and_each_key_once(spark, table):
    grown = [("t", 0, 5, 9, 4, None, 2), ("t", 0, 9, 11, 2, None, -1)]
    kept = [("t", 0, 9, 2)]
    assert faults(*table(accounts=grown, rows=kept)) == []
    found = faults(*table(accounts=grown, rows=kept, more_rows=[("t", 0, 8, 2)]))
    assert [(one.kind, one.places) for one in found] == [("ROWS", 1)]
    named = [("t", 0, 5, b"a", 1), ("t", 0, 6, b"a", 2), ("t", 1, 9, b"a", 1), ("u", 0, 1, b"b", 1)]
    columns = "topic string, partition int, offset long, key binary, id int"
    rows = spark.createDataFrame(named, columns)
    expected = spark.createDataFrame([("t", 1, "KEY", 9)], _FAULTS)
    assertDataFrameEqual(key_faults(rows, ["key"]), expected)
    assertDataFrameEqual(key_faults(rows, ["key", "id"]), expected)


def test_the_quarantine_counts_like_the_table(table):
    found = faults(*table(quarantine=[("t", 0, 6, 1)]))
    assert found == [Fault("t", 0, "DUPLICATE", 1, 6), Fault("t", 0, "QUARANTINE", 1, 6)]
