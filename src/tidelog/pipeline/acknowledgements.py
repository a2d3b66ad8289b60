"""The acknowledgement log: a row for each record, as the cluster acknowledges it.

A record's *sequence* is its position in the producer's input, from 0. It travels in the header
`SEQUENCE_HEADER` as decimal digits, and is logged beside the acknowledged partition and offset. So
a verifier recognises each record, even among equal values, and distinguishes a lost one from one
that is elsewhere or duplicated. The checksum is CRC-32 (zlib) of the value alone, which Spark
computes without Python.

The file is Parquet, and readable only once closed: it serves the run that writes it. An
interruption may come between any two steps of `add`: a row is there or it is not, and the file can
be closed.
"""

from typing import Any, Final, Self
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.pipeline.places import Place, local_path
from tidelog.pipeline.spark_columns import arrow_schema

SEQUENCE_HEADER: Final = "tidelog.sequence"

ACKNOWLEDGEMENT_SCHEMA: Final = arrow_schema(
    "topic string, partition int, offset bigint, crc bigint, sequence bigint, key binary"
)
_CHUNK_ROWS: Final = 1 << 15


def sequence_header(sequence: int) -> tuple[str, bytes]:
    return SEQUENCE_HEADER, b"%d" % sequence


class AcknowledgementLog:
    """Appends acknowledgements to a Parquet file."""

    def __init__(self, path: Place, topic: str) -> None:
        # The topic of every row; one file is about one topic.
        self._topic = topic
        # Rows not yet in the file, without the topic; and how many are.
        self._pending: list[tuple[Any, ...]] = []
        self._written = 0
        self._writer = pq.ParquetWriter(
            local_path(path), ACKNOWLEDGEMENT_SCHEMA, compression="zstd"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(
        self, *, partition: int, offset: int, sequence: int, key: bytes | None, value: bytes
    ) -> None:
        self._pending.append((partition, offset, crc32(value), sequence, key))
        if len(self._pending) >= _CHUNK_ROWS:
            self._write_chunk()

    @property
    def rows(self) -> int:
        """Rows in all, written or not."""
        return self._written + len(self._pending)

    def close(self) -> None:
        """Writes what is left and finishes the file."""
        self._write_chunk()
        self._writer.close()

    def _write_chunk(self) -> None:
        chunk, self._pending = self._pending, []
        if not chunk:
            return
        topics = pa.repeat(pa.scalar(self._topic), len(chunk))
        columns = zip(zip(*chunk, strict=True), ACKNOWLEDGEMENT_SCHEMA.types[1:], strict=True)
        arrays = [topics, *(pa.array(values, kind) for values, kind in columns)]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=ACKNOWLEDGEMENT_SCHEMA))
        self._written += len(chunk)
