"""The process that forks Spark's Python workers, `pyspark.daemon`, without one of its messages.

`take` and `limit` close the connection to a worker once they have their rows, and a cancelled task
does so at any moment, before the new worker has said who it is perhaps. What the worker writes then
fails, and the daemon prints a `BrokenPipeError` with its stack. Nothing is wrong, so here that
worker ends without a word, with the same exit code. All else is PySpark's.

The script that sessions on this machine give Spark as its Python names this module where Spark
names `pyspark.daemon` (`spark_session.py`). `spark.python.daemon.module` would not do: Spark does
not read it for the workers in which it plans, those that look data sources up, prepare a write and
commit it.
"""

import sys
import traceback
from types import SimpleNamespace
from typing import Final

MODULE: Final = "tidelog.pipeline.spark.worker_daemon"


def print_exc() -> None:
    """Prints why a worker ends, unless it is that Java does not read what it writes."""
    if not isinstance(sys.exc_info()[1], BrokenPipeError):
        traceback.print_exc()


if __name__ == "__main__":
    from pyspark import daemon

    # What that module uses of it.
    daemon.traceback = SimpleNamespace(print_exc=print_exc, format_exc=traceback.format_exc)
    daemon.manager()
