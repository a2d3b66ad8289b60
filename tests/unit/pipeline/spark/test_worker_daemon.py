"""A worker whose rows are not wanted any more ends without a word; other errors are PySpark's."""

import pytest

from tidelog.pipeline.spark.worker_daemon import print_exc


@pytest.mark.parametrize(
    ("error", "printed"),
    [
        (BrokenPipeError(32, "Broken pipe"), ""),
        (ConnectionResetError(104, "reset"), "ConnectionResetError: [Errno 104] reset"),
    ],
)
def test_a_closed_connection_is_not_reported(error, printed, capsys):
    try:
        raise error
    except OSError:
        print_exc()
    assert (capsys.readouterr().err.splitlines() or [""])[-1] == printed
