"""What becomes of the failures of a job on Spark: one message, one hint, one exit code.

Exit codes of all `tidelog spark` commands:

- 0: good;
- 1: the data is wrong: lost, damaged, not equal, there twice;
- 2: wrong use: correct the command;
- 3: no answer, try again: no broker answers, Spark or the machine failed;
- 130: interrupted, by Ctrl-C or SIGTERM.

So a script can distinguish "records are lost" from "no job could look". Spark shows the errors of
our Python code as text, with their tracebacks; the kind of the last one decides.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import typer

from tidelog.cli.spark_log import SparkLog
from tidelog.cli.terminal import BadAnswer, NoAnswer, WorkFailed
from tidelog.errors import UsageError

Failure = UsageError | WorkFailed

_PYTHON_ERROR: Final = re.compile(
    r"^(?:[a-z_]+\.)*(?P<kind>[A-Z]\w+): (?P<message>.+?)(?:\nhint: (?P<hint>.+?))?$", re.MULTILINE
)
"""The last line of a Python traceback, and the hint below it if the error is one of ours."""
_WRONG_DATA: Final = ("DataLoss", "CorruptBatch", "LogDamaged", "TableDamaged", "KeyMoved")
_WRONG_USE: Final = ("UsageError", "ValueError")
"""With a hint: our sources turn the first into the second, of which Spark shows the text."""
_NO_TIDELOG: Final = re.compile(r"No module named '(?:pyspark_)?tidelog|DATA_SOURCE_NOT_FOUND")
_FILE_GONE: Final = "[PATH_NOT_FOUND]"
PACKAGE_HINT: Final = (
    "make an archive with `tidelog spark package`, which prints the conf that gives it to them"
)
_BROKER_HINT: Final = "check the address, and that the brokers run"
_REGISTRY_HINT: Final = "check `--registry`, and that it runs; then run it again"
_STORE_HINT: Final = (
    "check `--table`, and endpoint and credentials: `--table-option`, or AWS_… in the environment "
    "of driver and workers; the table is usable as it is"
)
_TRACE_HINT: Final = "run it again with `--debug` for the whole trace"


def spark_failure(text: str) -> Failure:
    """What a failure is by Spark's text: by the last error of our Python code in it, else by its
    first line."""
    if _NO_TIDELOG.search(text):
        return UsageError("Spark's workers have no Tidelog", PACKAGE_HINT)
    if _FILE_GONE in text:
        first = text.strip().partition("\n")[0].removeprefix(_FILE_GONE).strip()
        return WorkFailed(first, "bring back the file, which the table names")
    errors = list(_PYTHON_ERROR.finditer(text))
    if not errors:
        return NoAnswer(text.strip().partition("\n")[0], _TRACE_HINT)
    last = errors[-1]
    kind, message, hint = last["kind"], last["message"], last["hint"]
    if kind in _WRONG_DATA:
        return WorkFailed(message, hint or _TRACE_HINT)
    if kind in _WRONG_USE and hint:
        return UsageError(message, hint)
    return NoAnswer(message, hint or _TRACE_HINT)


@contextmanager
def failures_named(log: SparkLog) -> Iterator[None]:
    """Turns failures of Spark, of its Java process and of the cluster into ours, and adds the place
    of Spark's log to their hints; not to wrong use, a bad answer or an interrupt. Raises
    `WorkFailed` and `UsageError`; other errors are raised again."""
    try:
        yield
    except (UsageError, WorkFailed, BadAnswer, typer.Exit):
        raise
    except Exception as error:
        failure = _failure_of(error, log)
        if failure is not None:
            raise failure from error
        place = log.named("")
        if place:
            sys.stderr.write(f"{place.removeprefix('; ')}\n")
        raise


def _failure_of(error: Exception, log: SparkLog) -> Failure | None:
    """What to report; `None` for an error that is neither Spark's nor the cluster's."""
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    from tidelog.pipeline.errors import ClusterUnavailable

    if isinstance(error, PySparkException | Py4JJavaError):
        found = spark_failure(str(error))
        return type(found)(found.message, log.named(found.hint))
    if isinstance(error, ClusterUnavailable):
        return unreachable(error)
    return java_ended(log) if isinstance(error, Py4JError | ConnectionError | EOFError) else None


def unreachable(error: Exception) -> NoAnswer:
    """No broker answers, or no object store, or no registry."""
    from tidelog.pipeline.errors import RegistryUnavailable, StoreUnavailable

    message, _, hint = str(error).partition("\nhint: ")
    hints = {RegistryUnavailable: _REGISTRY_HINT, StoreUnavailable: _STORE_HINT}
    usual = next((text for kind, text in hints.items() if isinstance(error, kind)), _BROKER_HINT)
    return NoAnswer(message, hint or usual)


def damaged(error: Exception) -> WorkFailed:
    """Files of a table are gone or torn; the error has a hint."""
    message, _, hint = str(error).partition("\nhint: ")
    return WorkFailed(message, hint)


def java_ended(log: SparkLog) -> NoAnswer:
    """Java is gone, and why as far as its exit code shows."""
    from tidelog.pipeline.spark.spark_session import why_java_ended

    why, hint = why_java_ended()
    return NoAnswer(f"Spark's Java process {why}", log.named(hint))
