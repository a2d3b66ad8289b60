"""The delays by carrier and hour."""

import json

import pytest
from pyspark.testing import assertDataFrameEqual

from tidelog.pipeline.jobs.delays import delays_by_carrier_and_hour, flights

pytestmark = pytest.mark.spark


def test_means_and_percentiles_of_flights_that_left(spark):
    rows = [("UA", 5, delay) for delay in range(101)] + [
        ("UA", 5, None),
        ("ZZ", 6, -3),
        ("UA", 7, None),
    ]
    values = [
        (json.dumps({"hour": hour, "carrier": carrier, "dep_delay": delay, "x": [1]}).encode(),)
        for carrier, hour, delay in rows
    ]
    values += [
        (b"no json",),
        (b'{"carrier": "UA"}',),
        (b'{"carrier": "UA", "hour": "dawn"}',),
        (None,),
    ]
    airlines = spark.createDataFrame([("UA", "United")], "carrier string, name string")
    records = spark.createDataFrame(values, "value binary")
    answer = delays_by_carrier_and_hour(flights(records), airlines)
    expected = spark.createDataFrame(
        [
            ("UA", "United", 5, 102, 1, 50.0, 95.0),
            ("UA", "United", 7, 1, 1, None, None),
            ("ZZ", None, 6, 1, 0, -3.0, -3.0),
        ],
        "carrier string, airline string, hour int, flights bigint, cancelled bigint, "
        "mean_delay_minutes double, p95_delay_minutes double",
    )
    assertDataFrameEqual(answer, expected, checkRowOrder=True)
