"""What a leader demands of a client's batch before it enters the log.

Kafka walks every record of a batch. Here the header decides, and the records are walked only where
the header cannot: topics that compact (every record needs a key), a finite
`message.timestamp.before.max.ms` (the smallest timestamp is not in the header), a batch whose
timestamps are refused (to list the refused records), and recompression. One pass answers all of
that (`records/survey.py`).

Deviation from Kafka, on purpose, because walking a hundred records costs Python more than
everything else together: for other topics the header is trusted for the largest timestamp, and
that the records inside are numbered 0..n-1 and readable is not verified. The checksum, the
lengths, the record count (more records than the body has room for would use up offsets by the
million) and the offset range are. A producer with a wrong header harms only the readers of
its own batch: replication, recovery, indexes and offsets never look behind the header.

Order of checks: shape, size, checksum, then contents, so that the error codes equal Kafka's.

To look inside takes up to a second (`limits.MAX_INSPECTED_BATCH_BYTES`), which is too long for a
turn of the loop. So a large batch is judged before it comes to the log (`judge`), by a thread; what
is judged is a function of the batch, the log's configuration and the time.

Source: Kafka's `LogValidator`, `UnifiedLog.analyzeAndValidateRecords`.
"""

from typing import Final, NamedTuple, NoReturn

from tidelog.config import LONG_MAX, LogConfig
from tidelog.env.disk import Buffer
from tidelog.env.effects import Rest, no_rest
from tidelog.errors import CorruptBatch, ErrorCode, ProtocolError
from tidelog.limits import (
    BYTES_READ_PER_WORK,
    MAX_INSPECTED_AT_ONCE_BYTES,
    MAX_INSPECTED_AT_ONCE_RECORDS,
    MAX_INSPECTED_BATCH_BYTES,
    MAX_INSPECTED_RECORDS,
)
from tidelog.log.values import InvalidRecords
from tidelog.model import TopicPartition
from tidelog.records import batch as batches
from tidelog.records.batch import HEADER_BYTES, BatchHeader, read_header
from tidelog.records.compression import CODEC_BY_NAME, Codec, inflate_bound_bytes
from tidelog.records.record import MIN_RECORD_BYTES
from tidelog.records.survey import Survey, Times, survey_records
from tidelog.wire.produce import RecordError

_MAX_CODEC: Final = max(Codec)
_REJECTED: Final = "One or more records have been rejected"


class Bounds(NamedTuple):
    """How much may be looked into."""

    most_bytes: int
    most_records: int


WHOLE: Final = Bounds(MAX_INSPECTED_BATCH_BYTES, MAX_INSPECTED_RECORDS)
"""What is more is refused."""

AT_ONCE: Final = Bounds(MAX_INSPECTED_AT_ONCE_BYTES, MAX_INSPECTED_AT_ONCE_RECORDS)
"""What is more is left to a thread."""

NOTHING: Final = Bounds(0, 0)
"""For those who try that."""


class Refused(NamedTuple):
    """Why a batch is refused. Not the error itself: that would keep what was inflated in the frames
    in which it was raised."""

    code: ErrorCode
    message: str
    record_errors: tuple[RecordError, ...] | None
    """`None` for a batch that is damaged."""

    @classmethod
    def by(cls, fault: ProtocolError) -> "Refused":
        """The reason that an error has."""
        errors = fault.record_errors if isinstance(fault, InvalidRecords) else None
        return cls(fault.code, fault.message, errors)

    @property
    def fault(self) -> ProtocolError:
        """The error to raise."""
        if self.record_errors is None:
            return CorruptBatch(self.message, self.code)
        return InvalidRecords(self.message, self.record_errors, self.code)


class Judged(NamedTuple):
    """What a leader makes of a client's batch, before its log does."""

    records: bytes | None
    """The batch that was packed anew, to append instead; `None` for the client's own. That one may
    wait longer than the buffer that it came in, so a verdict has no part of it."""
    verdict: BatchHeader | Refused
    """Its header, or why it is refused."""
    work: int
    """What that took of the turn, in the unit of `limits.REPLICA_WORK_PER_TURN`."""

    @property
    def header(self) -> BatchHeader:
        """Of what to append. Raises the `ProtocolError` of a batch that is refused."""
        if isinstance(self.verdict, Refused):
            raise self.verdict.fault
        return self.verdict


class Inside:
    """The records of a client's batch: read where a check asks for them, and then once."""

    __slots__ = ("_batch", "_bounds", "_rest", "_survey", "body", "is_refused", "partition", "work")

    def __init__(
        self, batch: Buffer, partition: TopicPartition, bounds: Bounds = WHOLE, rest: Rest = no_rest
    ) -> None:
        self._batch = batch
        # For which it is.
        self.partition = partition
        self._bounds = bounds
        self._rest = rest
        self._survey: Survey | None = None
        # Their bytes, once they are read.
        self.body: bytes | memoryview = b""
        # Whether the records could not be read, within the bounds.
        self.is_refused = False
        # What it has taken, in the unit of `limits.REPLICA_WORK_PER_TURN`.
        self.work = 0

    def survey(self, header: BatchHeader, times: Times | None = None) -> Survey:
        """What is in them; `times` count for who asks first. Raises `InvalidRecords` unless their
        inner offsets are 0..n-1."""
        if self._survey is None:
            self._survey = self._look(header, times)
        return self._survey

    def _look(self, header: BatchHeader, times: Times | None) -> Survey:
        try:
            body = batches.inspected_body(self._batch, 0, header, *self._bounds)
            found = survey_records(body, header, times, self._rest)
        except CorruptBatch as error:
            self.is_refused = True
            bound_bytes = min(self._bounds.most_bytes, inflate_bound_bytes(len(self._batch)))
            self.work += bound_bytes // BYTES_READ_PER_WORK
            raise InvalidRecords(error.message) from None
        self.work += len(body) // BYTES_READ_PER_WORK + header.record_count
        self.body = body
        if found.misplaced is not None:
            index, offset = found.misplaced
            error_text = f"inner offset {offset}, expected {index}"
            raise InvalidRecords(_REJECTED, [RecordError(index, error_text)])
        return found


def looks_inside(header: BatchHeader, config: LogConfig, wall_ms: int) -> bool:
    """Whether the header does not decide about a batch."""
    return (
        "compact" in config.cleanup_policy
        or _codec_instead(header, config) is not None
        or _has_times_to_check(header, config, wall_ms)
    )


def _has_times_to_check(header: BatchHeader, config: LogConfig, wall_ms: int) -> bool:
    if config.message_timestamp_type != "CreateTime":
        return False
    newest = wall_ms + config.message_timestamp_after_max_ms
    return header.max_timestamp > newest or config.message_timestamp_before_max_ms != LONG_MAX


def _codec_instead(header: BatchHeader, config: LogConfig) -> Codec | None:
    """The topic's own codec, if the batch is in another one."""
    codec = CODEC_BY_NAME.get(config.compression_type)
    return None if codec == header.codec else codec


def judge(
    records: Buffer,
    partition: TopicPartition,
    config: LogConfig,
    wall_ms: int,
    bounds: Bounds = WHOLE,
    rest: Rest = no_rest,
) -> Judged | None:
    """Whether a client's batch may be appended, and as what. `None` for one that has more in it
    than bounds that are not the `WHOLE`, and then perhaps for one that is damaged."""
    inside = Inside(records, partition, bounds, rest)
    try:
        header = check_client_batch(records, config, wall_ms, inside)
        rebuilt = recompress(inside, header, config)
    except ProtocolError as fault:
        if inside.is_refused and bounds != WHOLE:
            return None
        return Judged(None, Refused.by(fault), inside.work)
    if rebuilt is None:
        return Judged(None, header, inside.work)
    return Judged(rebuilt, read_header(rebuilt), inside.work)


def check_client_batch(
    records: Buffer, config: LogConfig, wall_ms: int, inside: Inside
) -> BatchHeader:
    """The header of the one valid batch that `records` must be. Raises `InvalidRecords` or
    `CorruptBatch` with the code for the reply."""
    header = _check_shape(records)
    size_bytes = len(records)
    if size_bytes > config.max_message_bytes or size_bytes > config.segment_bytes:
        _refuse_size(size_bytes, config)
    if batches.crc_of(records, 0, size_bytes) != header.crc:
        raise CorruptBatch(f"batch of {size_bytes} bytes has a wrong checksum")
    # One test for the usual case: no flags, no producer faults, as many records as offsets.
    count = header.record_count
    sequenced = header.base_sequence >= 0 or header.producer_id < 0
    plain = 0 <= header.attributes <= _MAX_CODEC
    if not (plain and sequenced) or count != header.last_offset_delta + 1:
        _check_header(header)
    if count * MIN_RECORD_BYTES > size_bytes - HEADER_BYTES:
        _check_room(header, size_bytes - HEADER_BYTES)
    if _has_times_to_check(header, config, wall_ms):
        _check_times(inside, header, config, wall_ms)
    if "compact" in config.cleanup_policy:
        _check_keys(inside, header)
    return header


def _check_shape(records: Buffer) -> BatchHeader:
    size_bytes = len(records)
    if size_bytes < HEADER_BYTES:
        raise InvalidRecords(f"expected one record batch, got {size_bytes} bytes")
    if records[16] != batches.MAGIC:
        raise InvalidRecords(f"batch magic is `{records[16]}`, expected {batches.MAGIC}")
    header = read_header(records)
    behind_bytes = size_bytes - batches.LOG_OVERHEAD_BYTES - header.length
    if behind_bytes:
        raise InvalidRecords(f"expected one record batch, {behind_bytes} bytes follow it")
    if header.base_offset != 0:
        raise InvalidRecords(f"base offset is `{header.base_offset}`, expected 0")
    return header


def _refuse_size(size_bytes: int, config: LogConfig) -> NoReturn:
    if size_bytes > config.max_message_bytes:
        code = ErrorCode.MESSAGE_TOO_LARGE
        bound = f"max.message.bytes is `{config.max_message_bytes}`"
    else:
        code = ErrorCode.RECORD_LIST_TOO_LARGE
        bound = f"segment.bytes is `{config.segment_bytes}`"
    raise InvalidRecords(f"batch of {size_bytes} bytes, {bound}", code=code)


def _check_header(header: BatchHeader) -> None:
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        offset_count = header.last_offset_delta + 1
        raise InvalidRecords(f"{header.record_count} records over {offset_count} offsets")
    if header.is_control:
        raise InvalidRecords("clients may not write control batches")
    if header.is_log_append_time:
        detail = "clients may not set the timestamp type LogAppendTime"
        raise InvalidRecords(detail, code=ErrorCode.INVALID_TIMESTAMP)
    producer_id, sequence = header.producer_id, header.base_sequence
    if producer_id >= 0 and sequence < 0:
        raise InvalidRecords(f"base sequence `{sequence}` of producer `{producer_id}`")
    if header.is_transactional and producer_id < 0:
        raise InvalidRecords("transactional batch without producer id")
    if header.codec > _MAX_CODEC:
        detail = f"compression codec `{header.codec}`"
        raise InvalidRecords(detail, code=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


def _check_room(header: BatchHeader, body_bytes: int) -> None:
    if header.codec != Codec.NONE:
        body_bytes = inflate_bound_bytes(body_bytes)
    if header.record_count * MIN_RECORD_BYTES > body_bytes:
        raise InvalidRecords(f"{header.record_count} records cannot be in {body_bytes} bytes")


def _check_times(inside: Inside, header: BatchHeader, config: LogConfig, wall_ms: int) -> None:
    newest = wall_ms + config.message_timestamp_after_max_ms
    oldest = wall_ms - config.message_timestamp_before_max_ms
    errors = [
        RecordError(index, f"timestamp {timestamp} is not within {oldest} to {newest}")
        for index, timestamp in inside.survey(header, (oldest, newest)).untimely
    ]
    if header.max_timestamp > newest and not errors:
        errors.append(RecordError(0, f"max timestamp {header.max_timestamp} is above {newest}"))
    if errors:
        raise InvalidRecords(_REJECTED, errors, ErrorCode.INVALID_TIMESTAMP)


def _check_keys(inside: Inside, header: BatchHeader) -> None:
    keyless = inside.survey(header).keyless
    if keyless:
        # As in Kafka: one answer has the errors of many partitions.
        text = "Compacted topic cannot accept message without key in topic partition "
        text += str(inside.partition)
        raise InvalidRecords(_REJECTED, [RecordError(index, text) for index in keyless])


def recompress(inside: Inside, header: BatchHeader, config: LogConfig) -> bytes | None:
    """The batch in the topic's own codec; `None` when it is in the right one already."""
    codec = _codec_instead(header, config)
    if codec is None:
        return None
    # The header's may be wrong, and clients ask for records by their times.
    max_timestamp = inside.survey(header).max_timestamp
    if not -LONG_MAX <= max_timestamp <= LONG_MAX:
        raise InvalidRecords(f"timestamp {max_timestamp}", code=ErrorCode.INVALID_TIMESTAMP)
    rebuilt = batches.repack(header, inside.body, codec, max_timestamp)
    if len(rebuilt) > config.max_message_bytes or len(rebuilt) > config.segment_bytes:
        _refuse_size(len(rebuilt), config)
    return rebuilt
