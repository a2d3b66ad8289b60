"""The process that forks Spark's Python workers, `pyspark.daemon`, without one of its messages.

`take` and `limit` close the connection to a worker once they have their rows. The worker's last
write then fails, and the daemon prints a `BrokenPipeError` with its stack. Nothing is wrong, so
here that worker ends without a word, with the same exit code. All else is PySpark's.

Sessions on this machine name this module in `spark.python.daemon.module`.
"""

import os
from collections.abc import Callable
from typing import Any, Final

MODULE: Final = "tidelog.pipeline.spark.worker_daemon"
_EXIT_FAILED: Final = 1

Worker = Callable[[Any, bool], int]


def ended_quietly(worker: Worker, end: Callable[[int], object] = os._exit) -> Worker:
    """A worker that ends its process when Java does not read what it writes."""

    def run(connection: Any, authenticated: bool) -> int:
        try:
            return worker(connection, authenticated)
        except BrokenPipeError:
            end(_EXIT_FAILED)
            return _EXIT_FAILED

    return run


if __name__ == "__main__":
    from pyspark import daemon

    daemon.worker = ended_quietly(daemon.worker)
    daemon.manager()
