"""EndQuorumEpoch (54), versions 0-1: the leader of the quorum resigns.

The replica of the metadata log answers (`kraft/`); the wire form is in `kraft/codec.py`.
"""

from typing import Final

from tidelog.broker.api.declaration import CONTROLLERS, QuorumApi, VersionRange
from tidelog.broker.api.quorum_frames import reply_of, request_of
from tidelog.kraft.codec import SENT_VERSIONS
from tidelog.security.rights import CLUSTER_ACTION
from tidelog.wire.api import ApiKey

API: Final = QuorumApi(
    key=ApiKey.END_QUORUM_EPOCH,
    doc=__doc__,
    listeners=CONTROLLERS,
    versions=VersionRange(0, 1),
    sent_version=SENT_VERSIONS[ApiKey.END_QUORUM_EPOCH],
    requires=CLUSTER_ACTION,
    request_of=request_of,
    reply_of=reply_of,
)
