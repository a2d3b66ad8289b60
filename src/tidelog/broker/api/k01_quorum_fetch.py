"""Fetch (1), versions 4-18, on the controller listener: a replica reads the metadata log.

The replica of the metadata log answers (`kraft/`); the wire form is in `kraft/fetch_codec.py`.
The Fetch of the broker listener is `k01_fetch.py`.
"""

from typing import Final

from tidelog.broker.api.checks import CLUSTER_ACTION, DENIED_FETCH, cluster
from tidelog.broker.api.declaration import QuorumApi, VersionRange
from tidelog.env.effects import Chunk
from tidelog.kraft import fetch_codec
from tidelog.kraft.codec import SENT_VERSIONS
from tidelog.kraft.messages import QuorumFetchRequest, QuorumFetchResponse
from tidelog.security.rights import Operation
from tidelog.wire import fetch as wire
from tidelog.wire.api import ApiKey, RequestHeader
from tidelog.wire.entities import Entity

_FIRST_WITH_IDS: Final = 13
"""The version from which topics have ids instead of names."""
_FIRST_WITH_ENDPOINTS: Final = 17
"""The version from which a quorum's answer says where the leader is."""


def _names_topics(request: Entity) -> bool:
    return bool(request.__version__ < _FIRST_WITH_IDS)


def request_of(header: RequestHeader, frame: memoryview, offset: int) -> QuorumFetchRequest:
    """The quorum's value of a request. Raises `ProtocolError`."""
    fetch = wire.parse_request(header.api_version, frame, offset)
    return fetch_codec.fetch_request_of(fetch)


def reply_of(header: RequestHeader, response: QuorumFetchResponse) -> list[Chunk]:
    """The framed reply; the records are not copied."""
    fetched = fetch_codec.fetch_response_to_wire(response)
    if header.api_version < _FIRST_WITH_ENDPOINTS:
        fetched = fetched._replace(node_endpoints=[])
    return wire.pack_response(header.api_version, header.correlation_id, fetched)


API: Final = QuorumApi(
    key=ApiKey.FETCH,
    doc=__doc__,
    versions=VersionRange(4, 18),
    sent_version=SENT_VERSIONS[ApiKey.FETCH],
    requires=(
        cluster(Operation.CLUSTER_ACTION, when=_names_topics, renamed=DENIED_FETCH),
        *CLUSTER_ACTION,
    ),
    request_of=request_of,
    reply_of=reply_of,
)
