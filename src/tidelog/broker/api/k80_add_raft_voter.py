"""AddRaftVoter (80), versions 0-1: a replica of the metadata log becomes a voter.

The quorum's leader decides (`kraft/membership.py`).
"""

from typing import Final

from tidelog.broker.api.declaration import VersionRange, VoterChangeApi
from tidelog.kraft.codec import SENT_VERSIONS
from tidelog.wire.api import ApiKey

API: Final = VoterChangeApi(
    key=ApiKey.ADD_RAFT_VOTER,
    doc=__doc__,
    versions=VersionRange(0, 1),
    sent_version=SENT_VERSIONS[ApiKey.ADD_RAFT_VOTER],
)
