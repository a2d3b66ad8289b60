"""FetchSnapshot (59), versions 0-1: a replica of the metadata log reads a snapshot by position.

The replica of the metadata log answers (`kraft/`); the wire form is in `kraft/codec.py`.
"""

from typing import Final

from tidelog.broker.api.declaration import CONTROLLERS, QuorumApi, VersionRange
from tidelog.broker.api.quorum_frames import reply_of, request_of
from tidelog.kraft.codec import SENT_VERSIONS
from tidelog.security.rights import CLUSTER_ACTION
from tidelog.wire.api import ApiKey

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
