"""The data pipeline: record batches to Arrow, topics to Spark, and jobs that prove what they read.

It reads topics through `tidelog.client`, or reads log directories, and imports nothing above those.
`session()` starts Spark; it is imported when it is first named, because everything else here works
without Spark.

| package | what it does |
| --- | --- |
| `batches`, `varints`, `decode` | record batches to Arrow, many batches at a time |
| `cluster` | leaders and offsets, by the wire client |
| `topics/` | the topic source: options, plan, ranges, reads |
| `logs/` | log directories: the segment source, and what the audit compares |
| `sink/` | rows to a topic |
| `tables/` | topics to Delta tables, exactly once, with an account of every offset |
| `health/` | figures from the events of the nodes |
| `campaign/` | simulator seeds as a job |
| `spark/` | sessions, Java, jars, the doctor |
| `jobs/` | thin: read, transform, write |
"""

from typing import TYPE_CHECKING, Any

if __spec__ is not None and type(__spec__.loader).__name__ == "zipimporter":
    raise ImportError(
        "Tidelog does not run from a wheel or zip (`--py-files`): Spark's planning does not see "
        "it, and it needs compiled packages\nhint: make an archive with `tidelog spark package`, "
        "and give it as that command prints"
    )

if TYPE_CHECKING:
    from tidelog.pipeline.spark.spark_session import session

__all__ = ["session"]


def __getattr__(name: str) -> Any:
    if name == "session":
        from tidelog.pipeline.spark.spark_session import session

        return session
    raise AttributeError(name)
