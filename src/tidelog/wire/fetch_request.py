"""Reading and writing Fetch requests, versions 4 to 18. See `fetch.py`."""

from struct import Struct
from typing import Final

from tidelog.env.disk import Buffer
from tidelog.model import CONSUMER_REPLICA_ID, ZERO_UUID
from tidelog.wire.api import ApiKey, pack_header, with_length
from tidelog.wire.fetch_messages import (
    DIRECTORY_FROM,
    FETCH_ANY_HIGH_WATERMARK,
    FLEXIBLE_FROM,
    HIGH_WATERMARK_FROM,
    LEADER_EPOCH_FROM,
    LOG_START_FROM,
    MIN_VERSION,
    RACK_FROM,
    REPLICA_STATE_FROM,
    SESSIONS_FROM,
    TOPIC_ID_FROM,
    FetchPartition,
    FetchRequest,
    ForgottenPartition,
    notation_of,
)
from tidelog.wire.notation import (
    FLEXIBLE,
    INT32,
    NO_TAGS,
    UUID_BYTES,
    Notation,
    check_tag,
    read_body,
    read_tags,
    skip_tags,
    write_tags,
)
from tidelog.wire.topics import MIN_TOPIC_BYTES, read_topic, runs_of_topics, write_topic

_CLUSTER_ID_TAG: Final = 0
_REPLICA_STATE_TAG: Final = 1
_REPLICA_DIRECTORY_TAG: Final = 0
_HIGH_WATERMARK_TAG: Final = 1

_HEAD_4: Final = Struct(">iiiib")
_HEAD_7: Final = Struct(">iiiibii")
_HEAD_15: Final = Struct(">iiibii")
_PARTITION_12: Final = Struct(">iiqiqi")
"""`FetchPartition[2:8]`: from `partition` to `max_bytes`."""
_REPLICA_STATE: Final = Struct(">iqB")
_INT64: Final = Struct(">q")

# No entry of the list takes fewer bytes, in any version.
_MIN_BYTES: Final = 16


def _older(version: int) -> tuple[tuple[int, ...], Struct]:
    """Which of the numbers in `_PARTITION_12` an older version has, by index, and their layout."""
    lacking = {1: LEADER_EPOCH_FROM, 3: FLEXIBLE_FROM, 4: LOG_START_FROM}
    present = tuple(index for index in range(6) if version >= lacking.get(index, MIN_VERSION))
    return present, Struct(">" + "".join("iiqiqi"[index] for index in present))


_OLDER: Final = {version: _older(version) for version in range(MIN_VERSION, FLEXIBLE_FROM)}


def parse_request(version: int, frame: Buffer, offset: int) -> FetchRequest:
    """Reads the body of a Fetch request that begins at `offset`.

    Raises `MalformedFrame`, and `ProtocolError(UNSUPPORTED_VERSION)`.
    """
    notation = notation_of(version)
    return read_body("Fetch request", _read_request, version, notation, frame, offset)


def _read_request(
    version: int, notation: Notation, view: memoryview, position: int
) -> tuple[FetchRequest, int]:
    replica_id = CONSUMER_REPLICA_ID
    if version >= REPLICA_STATE_FROM:
        numbers = _HEAD_15.unpack_from(view, position)
        position += _HEAD_15.size
    else:
        head = _HEAD_7 if version >= SESSIONS_FROM else _HEAD_4
        replica_id, *older = head.unpack_from(view, position)
        numbers = (*older, 0, -1)[:6]
        position += head.size
    partitions, directory_id, position = _read_partitions(version, notation, view, position)
    forgotten: list[ForgottenPartition] = []
    if version >= SESSIONS_FROM:
        position = _read_forgotten(version, notation, view, position, forgotten)
    rack_id = ""
    if version >= RACK_FROM:
        rack_id, position = notation.read_text(view, position)
    replica_epoch, cluster_id = -1, None
    if notation.flexible:
        if view[position] == NO_TAGS:
            position += 1
        else:
            state, cluster_id, position = _read_request_tags(version, view, position)
            if state is not None:
                replica_id, replica_epoch = state
    rest = (partitions, forgotten, rack_id, cluster_id, directory_id)
    return FetchRequest._make((replica_id, replica_epoch, *numbers, *rest)), position


def _read_request_tags(
    version: int, view: memoryview, position: int
) -> tuple[tuple[int, int] | None, str | None, int]:
    """Replica id and epoch, the cluster id, and the position behind the tagged fields."""
    state = cluster_id = None
    tags, position = read_tags(view, position)
    for tag, start, end in tags:
        if tag == _CLUSTER_ID_TAG:
            cluster_id, stop = FLEXIBLE.read_nullable_text(view, start)
        elif tag == _REPLICA_STATE_TAG and version >= REPLICA_STATE_FROM:
            replica_id, replica_epoch, _ = _REPLICA_STATE.unpack_from(view, start)
            state = (replica_id, replica_epoch)
            stop = skip_tags(view, start + _REPLICA_STATE.size - 1)
        else:
            stop = end
        check_tag(tag, stop, end)
    return state, cluster_id, position


def _read_partitions(
    version: int, notation: Notation, view: memoryview, position: int
) -> tuple[list[FetchPartition], bytes, int]:
    partitions: list[FetchPartition] = []
    directory_id = bytes(UUID_BYTES)
    has_id = version >= TOPIC_ID_FROM
    topics, position = notation.read_count(view, position, MIN_TOPIC_BYTES)
    for _ in range(topics):
        topic, topic_id, count, position = read_topic(notation, has_id, view, position, _MIN_BYTES)
        for _ in range(count):
            if version >= FLEXIBLE_FROM:
                numbers: tuple[int, ...] = _PARTITION_12.unpack_from(view, position)
                position += _PARTITION_12.size
            else:
                numbers, position = _read_older(version, view, position)
            high_watermark = FETCH_ANY_HIGH_WATERMARK
            if notation.flexible:
                if view[position] == NO_TAGS:
                    position += 1
                else:
                    high_watermark, directory_id, position = _read_partition_tags(
                        version, view, position, directory_id
                    )
            partitions.append(FetchPartition._make((topic, topic_id, *numbers, high_watermark)))
        position = notation.skip_tags(view, position)
    return partitions, directory_id, position


def _read_older(version: int, view: memoryview, position: int) -> tuple[tuple[int, ...], int]:
    """The numbers of a partition, -1 for those that the version lacks."""
    present, struct = _OLDER[version]
    numbers = [-1] * 6
    for index, number in zip(present, struct.unpack_from(view, position), strict=True):
        numbers[index] = number
    return tuple(numbers), position + struct.size


def _read_partition_tags(
    version: int, view: memoryview, position: int, directory_id: bytes
) -> tuple[int, bytes, int]:
    """The follower's high watermark and directory, and the position behind the tagged fields."""
    high_watermark = FETCH_ANY_HIGH_WATERMARK
    tags, position = read_tags(view, position)
    for tag, start, end in tags:
        if tag == _REPLICA_DIRECTORY_TAG and version >= DIRECTORY_FROM:
            directory_id = bytes(view[start:end])
            check_tag(tag, start + UUID_BYTES, end)
        elif tag == _HIGH_WATERMARK_TAG and version >= HIGH_WATERMARK_FROM:
            high_watermark = _INT64.unpack_from(view, start)[0]
            check_tag(tag, start + _INT64.size, end)
    return high_watermark, directory_id, position


def _read_forgotten(
    version: int,
    notation: Notation,
    view: memoryview,
    position: int,
    forgotten: list[ForgottenPartition],
) -> int:
    has_id = version >= TOPIC_ID_FROM
    topics, position = notation.read_count(view, position, MIN_TOPIC_BYTES)
    for _ in range(topics):
        topic, topic_id, count, position = read_topic(notation, has_id, view, position, INT32.size)
        for _ in range(count):
            partition = INT32.unpack_from(view, position)[0]
            forgotten.append(ForgottenPartition(topic, topic_id, partition))
            position += INT32.size
        position = notation.skip_tags(view, position)
    return position


def pack_request(
    version: int, correlation_id: int, client_id: str | None, request: FetchRequest
) -> bytes:
    """A whole Fetch request with header and length prefix.

    What the version has no field for is left out: sessions below 7, the follower's epochs below 9
    and 12, replica epoch below 15, directory and high watermark below 17 and 18.
    """
    notation = notation_of(version)
    out = bytearray(4)
    out += pack_header(ApiKey.FETCH, version, correlation_id, client_id)
    head = (request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level)
    session = (request.session_id, request.session_epoch)
    if version >= REPLICA_STATE_FROM:
        out += _HEAD_15.pack(*head, *session)
    elif version >= SESSIONS_FROM:
        out += _HEAD_7.pack(request.replica_id, *head, *session)
    else:
        out += _HEAD_4.pack(request.replica_id, *head)
    _write_partitions(version, notation, out, request)
    if version >= SESSIONS_FROM:
        _write_forgotten(version, notation, out, request.forgotten)
    if version >= RACK_FROM:
        notation.write_text(out, request.rack_id)
    if notation.flexible:
        write_tags(out, _request_tags(version, request))
    return with_length(out)


def _request_tags(version: int, request: FetchRequest) -> list[tuple[int, bytes | bytearray]]:
    tags: list[tuple[int, bytes | bytearray]] = []
    if request.cluster_id is not None:
        encoded = bytearray()
        FLEXIBLE.write_text(encoded, request.cluster_id)
        tags.append((_CLUSTER_ID_TAG, encoded))
    state = (request.replica_id, request.replica_epoch)
    if version >= REPLICA_STATE_FROM and state != (CONSUMER_REPLICA_ID, -1):
        tags.append((_REPLICA_STATE_TAG, _REPLICA_STATE.pack(*state, NO_TAGS)))
    return tags


def _write_partitions(
    version: int, notation: Notation, out: bytearray, request: FetchRequest
) -> None:
    runs = runs_of_topics(request.partitions)
    notation.write_length(out, len(runs))
    for run in runs:
        write_topic(notation, version >= TOPIC_ID_FROM, out, run)
        for each in run:
            if version >= FLEXIBLE_FROM:
                out += _PARTITION_12.pack(*each[2:8])
                write_tags(out, _partition_tags(version, each, request.replica_directory_id))
            else:
                present, struct = _OLDER[version]
                out += struct.pack(*[each[2 + index] for index in present])
        notation.write_no_tags(out)


def _partition_tags(
    version: int, partition: FetchPartition, directory_id: bytes
) -> list[tuple[int, bytes]]:
    tags = []
    if version >= DIRECTORY_FROM and directory_id != ZERO_UUID:
        tags.append((_REPLICA_DIRECTORY_TAG, directory_id))
    if version >= HIGH_WATERMARK_FROM and partition.high_watermark != FETCH_ANY_HIGH_WATERMARK:
        tags.append((_HIGH_WATERMARK_TAG, _INT64.pack(partition.high_watermark)))
    return tags


def _write_forgotten(
    version: int, notation: Notation, out: bytearray, forgotten: list[ForgottenPartition]
) -> None:
    runs = runs_of_topics(forgotten)
    notation.write_length(out, len(runs))
    for run in runs:
        write_topic(notation, version >= TOPIC_ID_FROM, out, run)
        for each in run:
            out += INT32.pack(each.partition)
        notation.write_no_tags(out)
