"""The acknowledgement log: a row for each record, as the cluster acknowledges it.

A record's *sequence* is its position in the producer's input, from 0. It travels in the header
`SEQUENCE_HEADER` as decimal digits, and is logged beside the acknowledged partition and offset. So
a verifier recognises each record, even among equal values, and distinguishes a lost one from one
that is elsewhere or duplicated. The checksum is CRC-32 (zlib) of the value alone, which Spark
computes without Python.

The file is Parquet, and readable only once closed: it serves the run that writes it.
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
        # Rows not yet in the file, column by column without the topic.
        self._columns: tuple[list[Any], ...] = ([], [], [], [], [])
        # Rows in all, written or not.
        self.rows = 0
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
        partitions, offsets, crcs, sequences, keys = self._columns
        partitions.append(partition)
        offsets.append(offset)
        crcs.append(crc32(value))
        sequences.append(sequence)
        keys.append(key)
        self.rows += 1
        if len(partitions) >= _CHUNK_ROWS:
            self._write_chunk()

    def close(self) -> None:
        """Writes what is left and finishes the file."""
        self._write_chunk()
        self._writer.close()

    def _write_chunk(self) -> None:
        topics = pa.repeat(pa.scalar(self._topic), len(self._columns[0]))
        columns = zip(self._columns, ACKNOWLEDGEMENT_SCHEMA.types[1:], strict=True)
        arrays = [topics, *(pa.array(values, kind) for values, kind in columns)]
        if len(topics):
            self._writer.write_table(pa.Table.from_arrays(arrays, schema=ACKNOWLEDGEMENT_SCHEMA))
        for values in self._columns:
            values.clear()
