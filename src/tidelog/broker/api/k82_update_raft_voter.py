"""UpdateRaftVoter (82), version 0: a voter reports its endpoints and its range of `kraft.version`.

The quorum's leader decides (`kraft/membership.py`). It is served on controller listeners only, and
never forwarded.
"""

from typing import Final

from tidelog.broker.api.checks import CLUSTER_ACTION
from tidelog.broker.api.declaration import CONTROLLERS, VersionRange, VoterChangeApi
from tidelog.kraft.codec import SENT_VERSIONS
from tidelog.wire.api import ApiKey

API: Final = VoterChangeApi(
    key=ApiKey.UPDATE_RAFT_VOTER,
    doc=__doc__,
    listeners=CONTROLLERS,
    versions=VersionRange(0, 0),
    sent_version=SENT_VERSIONS[ApiKey.UPDATE_RAFT_VOTER],
    requires=CLUSTER_ACTION,
)
