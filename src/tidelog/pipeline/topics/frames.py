"""A topic as a DataFrame: how the jobs use our own Spark source."""

from typing import Any

from pyspark.sql import DataFrame


def topic_frame(
    reader: Any, bootstrap_servers: str, topic: str, columns: str = "value binary", **options: str
) -> DataFrame:
    """The records of one topic. `reader` is `spark.read` or `spark.readStream`, `columns` are those
    of the source that the job needs, and `options` are more options of the source."""
    frame: DataFrame = (
        reader.format("tidelog")
        .schema(columns)
        .options(**{"kafka.bootstrap.servers": bootstrap_servers, "subscribe": topic, **options})
        .load()
    )
    return frame
