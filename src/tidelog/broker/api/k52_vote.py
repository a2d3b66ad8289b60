"""Vote (52), versions 0-2: a candidate asks a voter for its vote, or for its pre-vote.

The replica of the metadata log answers (`kraft/`); the wire form is in `kraft/codec.py`.
"""

from typing import Final

from tidelog.broker.api.declaration import CONTROLLERS, QuorumApi, VersionRange
from tidelog.broker.api.quorum_frames import reply_of, request_of
from tidelog.kraft.codec import SENT_VERSIONS
from tidelog.security.rights import CLUSTER_ACTION
from tidelog.wire.api import ApiKey

API: Final = QuorumApi(
    key=ApiKey.VOTE,
    doc=__doc__,
    listeners=CONTROLLERS,
    versions=VersionRange(0, 2),
    sent_version=SENT_VERSIONS[ApiKey.VOTE],
    requires=CLUSTER_ACTION,
    request_of=request_of,
    reply_of=reply_of,
)
