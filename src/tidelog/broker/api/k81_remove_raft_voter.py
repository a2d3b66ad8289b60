"""RemoveRaftVoter (81), version 0: a voter leaves the voter set.

The quorum's leader decides (`kraft/membership.py`).
"""

from typing import Final

from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, VersionRange, VoterChangeApi
from tidelog.kraft.codec import SENT_VERSIONS
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire.api import ApiKey

API: Final = VoterChangeApi(
    key=ApiKey.REMOVE_RAFT_VOTER,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(0, 0),
    sent_version=SENT_VERSIONS[ApiKey.REMOVE_RAFT_VOTER],
    requires=(on(Operation.ALTER, ResourceType.CLUSTER),),
)
