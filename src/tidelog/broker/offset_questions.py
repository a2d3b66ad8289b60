"""ListOffsets as brokers send it to leaders, and how its rows lie in requests and answers."""

from collections.abc import Sequence
from typing import Final

from tidelog.model import NO_EPOCH
from tidelog.replication.messages import ListOffsetsQuery, ListOffsetsResult
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, make
from tidelog.wire.shapes import Rows, Shape

SENT_VERSION: Final = 9
QUERY: Final = Shape(ListOffsetsQuery, topic="name", absent={"current_leader_epoch": NO_EPOCH})
RESULT: Final = Shape(ListOffsetsResult, topic="name")
_QUERIES: Final = Rows("topics.partitions", QUERY, by=["name"])
_RESULTS: Final = Rows("topics.partitions", RESULT, by=["name"])


def offsets_request(queries: Sequence[ListOffsetsQuery], replica_id: int) -> Entity:
    """The request of a replica, or of a consumer (-1)."""
    request_type = codec.request_class(ApiKey.LIST_OFFSETS, SENT_VERSION)
    rows = _QUERIES.write(queries)
    return make(request_type, replica_id=replica_id, isolation_level=0, timeout=0, **rows)


def offsets_answer(frame: memoryview | bytes) -> Sequence[ListOffsetsResult]:
    """What a leader says. Raises `MalformedFrame`."""
    _, entity = codec.decode_response(ApiKey.LIST_OFFSETS, SENT_VERSION, frame)
    return _RESULTS.read(entity)
