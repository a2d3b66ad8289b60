"""Ctrl-C in a session, without the stacks of py4j.

PySpark's handler of Ctrl-C asks Java to cancel all jobs, on the connection on which the interrupted
code waits for an answer. That call fails, and py4j logs it with all its stacks, and then the
interruption with another. Here the handler asks from a thread, which has a connection of its own,
and what py4j logs of calls that fail is dropped, since it raises an error as well. When Java ends
first, the thread that receives accumulators from it would print that nothing comes any more.
"""

import logging
import signal
import sys
import threading
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn


def drop_logs_of_py4j() -> None:
    """Drops what py4j logs; it logs to the root logger, where a name would not do."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    root = logging.getLogger()
    if _is_not_of_py4j not in root.filters:
        root.addFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return "/py4j/" not in record.pathname


def drop_end_of_accumulators(context: Any) -> None:
    """Makes the server of accumulators end without a stack when Java has ended."""
    server = getattr(context, "_accumulatorServer", None)
    if server is None:
        return
    report = server.handle_error

    def handle_error(request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], EOFError | ConnectionError):
            report(request, client_address)

    server.handle_error = handle_error


def replace_spark_handler(context: Any) -> None:
    """Puts a handler of Ctrl-C in the place of PySpark's; leaves any other one."""
    known = signal.getsignal(signal.SIGINT)
    if getattr(known, "__module__", "") != "pyspark.core.context":
        return

    def cancel() -> None:
        # Java may be gone, and so may the context, when this runs.
        with suppress(Exception):
            context.cancelAllJobs()

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        threading.Thread(target=cancel, daemon=True).start()
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupt)
