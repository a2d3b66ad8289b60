"""The file of acknowledgements."""

import sys
from itertools import count
from zlib import crc32

import pyarrow.parquet as pq

from tidelog.pipeline.acknowledgements import (
    ACKNOWLEDGEMENT_SCHEMA,
    AcknowledgementLog,
    sequence_header,
)


def test_what_was_acknowledged_is_read_back_in_order(tmp_path):
    path = tmp_path / "acknowledged.parquet"
    with AcknowledgementLog(path, "flights") as log:
        for number in range(70_000):
            log.add(
                partition=number % 6,
                offset=number // 6,
                sequence=number,
                key=None if number % 10 == 0 else b"N%d" % number,
                value=b"value %d" % number,
            )
        assert log.rows == 70_000
    file = pq.ParquetFile(path)
    assert file.num_row_groups == 3
    table = file.read()
    assert table.schema.equals(ACKNOWLEDGEMENT_SCHEMA)
    rows = table.slice(69_999).to_pylist()
    assert rows == [
        {
            "topic": "flights",
            "partition": 69_999 % 6,
            "offset": 69_999 // 6,
            "crc": crc32(b"value 69999"),
            "sequence": 69_999,
            "key": b"N69999",
        }
    ]
    assert table.column("key").null_count == 7000


def test_an_empty_log_is_a_file_too(tmp_path):
    path = tmp_path / "acknowledged.parquet"
    AcknowledgementLog(path, "flights").close()
    assert pq.read_table(path).num_rows == 0


def test_the_header_is_the_sequence_in_digits():
    assert sequence_header(1234) == ("tidelog.sequence", b"1234")


def interrupted(log: AcknowledgementLog, line: int) -> bool:
    """Adds a row, with Ctrl-C before so many of the lines that this takes; whether there were."""
    left = line

    def trace(frame, event, argument):
        nonlocal left
        if event == "line" and frame.f_code is AcknowledgementLog.add.__code__:
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        log.add(partition=0, offset=1, sequence=1, key=None, value=b"v")
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_a_file_can_be_closed_after_an_interruption_at_any_line_of_add(tmp_path):
    for line in count():
        path = tmp_path / f"{line}.parquet"
        with AcknowledgementLog(path, "flights") as log:
            log.add(partition=0, offset=0, sequence=0, key=None, value=b"v")
            was_interrupted = interrupted(log, line)
            rows = log.rows
        assert pq.read_table(path).num_rows == rows
        if not was_interrupted:
            break
    assert line >= 2
    assert rows == 2
