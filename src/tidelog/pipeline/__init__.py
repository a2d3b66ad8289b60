"""The data pipeline: record batches to Arrow, topics to Spark, and jobs that prove what they read.

It talks the wire or reads log directories and knows nothing above `records`. `session()` starts
Spark; it is imported when it is first named, because everything else here works without Spark.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog.pipeline.spark_session import session

__all__ = ["session"]


def __getattr__(name: str) -> Any:
    if name == "session":
        from tidelog.pipeline.spark_session import session

        return session
    raise AttributeError(name)
