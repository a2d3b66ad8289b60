"""Goal: the processor holds events back until the watermark has passed them, takes them in order,
and survives as the JSON of its state. Method: Spark's own tester, which needs no JVM."""

import json
from typing import Any

import pandas as pd
from pyspark.sql.streaming.tws_tester import TwsTester

from tests.pipeline.health_samples import FIRST_US, sample_events
from tidelog.pipeline.health.stream import PartitionProcessor

KEY = "orders-0"


def batch(events: list[dict[str, Any]]) -> pd.DataFrame:
    """A batch of one key, as `follow` hands it over."""
    return pd.DataFrame(
        {
            "place": [KEY for _ in events],
            "at": pd.to_datetime([one["ts_us"] for one in events], unit="us"),
            "event": [json.dumps(one) for one in events],
        }
    )


def processor() -> TwsTester:
    """A processor with nothing seen yet."""
    return TwsTester(
        PartitionProcessor(),
        timeMode="EventTime",
        eventTimeExtractor=lambda row: int(row["at"].timestamp() * 1000),
    )


def spans(frame: pd.DataFrame) -> set[tuple[str, float, float | None]]:
    """(kind, start in ms, duration) of the rows that have an end."""
    ended = frame[frame["end_us"].notna()]
    return {
        (row.kind, (row.start_us - FIRST_US) / 1000, float(row.duration_ms))
        for row in ended.itertuples()
    }


def of_partition_0() -> list[dict[str, Any]]:
    """The sample events of the key."""
    return [one for one in sample_events() if one["partition"] == 0]


WHOLE = {
    ("under_replicated", 1500.0, 6000.0),
    ("hw_stalled", 1600.0, 200.0),
    ("election", 1500.0, 300.0),
    ("commit", 100.0, 4.0),
}


def test_nothing_is_said_before_the_watermark_has_passed() -> None:
    spark = processor()
    assert spans(spark.testInPandas(KEY, batch(of_partition_0()))) == set()
    kept = json.loads(spark.peekValueState("health", KEY)[0])
    assert len(kept["waiting"]) == len(of_partition_0())
    assert spans(spark.setWatermark(FIRST_US // 1000 + 10_000)) == WHOLE
    assert json.loads(spark.peekValueState("health", KEY)[0])["waiting"] == []


def test_the_order_of_arrival_does_not_matter() -> None:
    """A controller's events come after those of the leaders that obeyed it."""
    spark = processor()
    late = [one for one in of_partition_0() if one["broker"] == 3]
    spark.testInPandas(KEY, batch([one for one in of_partition_0() if one["broker"] != 3]))
    spark.testInPandas(KEY, batch(late[::-1]))
    assert spans(spark.setWatermark(FIRST_US // 1000 + 10_000)) == WHOLE


def test_what_the_watermark_has_not_passed_waits() -> None:
    spark = processor()
    spark.testInPandas(KEY, batch(of_partition_0()))
    early = spans(spark.setWatermark(FIRST_US // 1000 + 5000))
    assert early == WHOLE - {("under_replicated", 1500.0, 6000.0)}
    rest = spans(spark.setWatermark(FIRST_US // 1000 + 10_000))
    assert rest == {("under_replicated", 1500.0, 6000.0)}
