"""FetchSnapshot (59), versions 0-1: a replica of the metadata log reads a snapshot by position.

The replica of the metadata log answers (`kraft/`); the wire form is in `kraft/snapshot_codec.py`.
"""

from typing import Final

from tidelog.broker.api.declaration import CONTROLLERS, QuorumApi, VersionRange
from tidelog.env.effects import Chunk
from tidelog.kraft import snapshot_codec
from tidelog.kraft.codec import SENT_VERSIONS
from tidelog.kraft.messages import FetchSnapshotRequest, FetchSnapshotResponse
from tidelog.security.rights import CLUSTER_ACTION
from tidelog.wire import codec
from tidelog.wire.api import ApiKey, RequestHeader


def request_of(header: RequestHeader, frame: memoryview, offset: int) -> FetchSnapshotRequest:
    """The quorum's value of a request. Raises `MalformedFrame`."""
    return snapshot_codec.snapshot_request_of(codec.decode_request(header, frame, offset))


def reply_of(header: RequestHeader, response: FetchSnapshotResponse) -> list[Chunk]:
    """The framed reply."""
    entity = snapshot_codec.snapshot_response_to_entity(response, header.api_version)
    return [codec.encode_response(header, entity)]


API: Final = QuorumApi(
    key=ApiKey.FETCH_SNAPSHOT,
    doc=__doc__,
    listeners=CONTROLLERS,
    versions=VersionRange(0, 1),
    sent_version=SENT_VERSIONS[ApiKey.FETCH_SNAPSHOT],
    requires=CLUSTER_ACTION,
    request_of=request_of,
    reply_of=reply_of,
)
