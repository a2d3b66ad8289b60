"""`tidelog produce`: writes the lines of stdin to a topic of any Kafka cluster.

A line is written as soon as it is there, with the others that are there. A record with a key goes
where the Java producer would send it; those without go to one partition after the other.
"""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

from tidelog.cli.arguments import (
    DEFAULT_DATA_DIR,
    MAX_PARTITION,
    Bootstrap,
    DataDir,
    argument,
    brokers_of,
    hinted,
    option,
)
from tidelog.cli.record_formats import VALUES, Read, reader, with_more
from tidelog.cli.terminal import TABLE, Output, WorkFailed, counted, print_answer
from tidelog.client.core.partitioning import partition_of_key
from tidelog.errors import ErrorCode
from tidelog.records.record import Record

if TYPE_CHECKING:
    from tidelog.client.writing import Writer

_READ_BYTES: Final = 256 << 10
"""How much is written at once, at most: well below what topics allow a batch."""
_HINTS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "create it with `tidelog topics create`",
    ErrorCode.MESSAGE_TOO_LARGE: "a record is larger than the topic's `max.message.bytes`",
    ErrorCode.RECORD_LIST_TOO_LARGE: "a record is larger than a segment of the topic",
    ErrorCode.INVALID_RECORD: "a compacted topic takes only records with a key",
}


def produce(
    topic: Annotated[str, argument("TOPIC", "The topic.")],
    format_: Annotated[
        str, option("--format", "`json`, `{value}` or `{key}SEPARATOR{value}`.", "FORMAT")
    ] = VALUES,
    key: Annotated[str | None, option("--key", "Of all records.", "TEXT")] = None,
    header: Annotated[
        list[str] | None, option("--header", "Of all records; may be given many times.", "N=VALUE")
    ] = None,
    partition: Annotated[
        int | None, option("--partition", "Write to this one.", "P", min=0, max=MAX_PARTITION)
    ] = None,
    bootstrap: Bootstrap = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: Output = TABLE,
) -> None:
    """Write the lines of stdin to a topic, each a record, once.

    Done when all in-sync replicas have them.
    """
    from tidelog.client.writing import Writer
    from tidelog.config import parse_assignment

    read = reader(format_)
    headers = tuple((name, value.encode()) for name, value in map(parse_assignment, header or ()))
    with closing(brokers_of(bootstrap, data_dir, "tidelog-produce")) as brokers:
        writer = hinted(_HINTS, lambda: Writer(brokers, topic))
        if partition is not None and partition >= writer.partition_count:
            raise WorkFailed(
                f"`{topic}` has no partition `{partition}`",
                f"`tidelog topics describe {topic}` shows its partitions",
            )
        writing = Writing(writer, partition)
        for lines in _arriving():
            records = [
                with_more(_read(read, line, number), key, headers)
                for number, line in enumerate(lines, writing.records + 1)
            ]
            hinted(_HINTS, partial(writing.write, records))
    value = {"topic": topic, "records": writing.records, "partitions": writing.ranges()}
    print_answer(output, value, f"wrote {counted(writing.records, 'record')} to `{topic}`")


class Writing:
    """Where records go, and what became of them."""

    def __init__(self, writer: "Writer", partition: int | None) -> None:
        self._writer = writer
        # Where all records go; `None` for their keys' partitions.
        self._partition = partition
        # Where the next records without a key go, counted without end.
        self._turn = 0
        # How many are written.
        self.records = 0
        # Of each partition the first offset (-1: not known), and how many records.
        self._written: dict[int, tuple[int, int]] = {}

    def write(self, records: Sequence[Record]) -> None:
        """Writes records; raises as `Writer.write` does."""
        by_partition: dict[int, list[Record]] = {}
        for record in records:
            by_partition.setdefault(self._place(record.key), []).append(record)
        self._turn += 1
        offsets = self._writer.write(by_partition)
        for number, some in by_partition.items():
            first, before = self._written.get(number, (offsets[number], 0))
            self._written[number] = first, before + len(some)
        self.records += len(records)

    def _place(self, key: bytes | None) -> int:
        if self._partition is not None:
            return self._partition
        count = self._writer.partition_count
        return self._turn % count if key is None else partition_of_key(key, count)

    def ranges(self) -> list[dict[str, int]]:
        """What is written, by partition."""
        return [
            {"partition": number, "first_offset": first, "records": count}
            for number, (first, count) in sorted(self._written.items())
        ]


def _read(read: Read, line: bytes, number: int) -> Record:
    try:
        return read(line, int(time.time() * 1000))
    except ValueError as error:
        raise WorkFailed(
            f"line {number} is not a record: {error}",
            "the lines before it may be written; correct it and write the rest",
        ) from None


def _arriving() -> Iterator[Sequence[bytes]]:
    """The lines of stdin, as many at once as are there."""
    rest = b""
    while data := os.read(sys.stdin.fileno(), _READ_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        if lines:
            yield lines
    if rest:
        yield [rest]
