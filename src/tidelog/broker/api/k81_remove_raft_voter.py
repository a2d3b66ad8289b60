"""RemoveRaftVoter (81), version 0: a voter leaves the voter set.

The quorum's leader decides (`kraft/membership.py`).
"""

from typing import Final

from tidelog.broker.api.declaration import VersionRange, VoterChangeApi
from tidelog.kraft.codec import SENT_VERSIONS
from tidelog.wire.api import ApiKey

API: Final = VoterChangeApi(
    key=ApiKey.REMOVE_RAFT_VOTER,
    doc=__doc__,
    versions=VersionRange(0, 0),
    sent_version=SENT_VERSIONS[ApiKey.REMOVE_RAFT_VOTER],
)
