"""ReadShareGroupStateSummary (87), versions 0-1: how far share groups have come (KIP-932).

The group coordinator sends it for an administrator. A share partition that is not known has no
start offset (-1). From version 1 on the answer says how many records are settled from the start
offset on (KIP-1226).
"""

from typing import Final

from tidelog.broker.api.declaration import VersionRange
from tidelog.broker.api.share_states import Row, share_state_api
from tidelog.shares.messages import ReadSummary
from tidelog.shares.records import Snapshot
from tidelog.wire.api import ApiKey


def _row(state: Snapshot) -> Row:
    return {
        "state_epoch": state.state_epoch,
        "leader_epoch": state.leader_epoch,
        "start_offset": state.start_offset,
        "delivery_complete_count": state.complete,
    }


API: Final = share_state_api(
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    __doc__,
    VersionRange(0, 1),
    asked_of=lambda partition, _: ReadSummary(partition),
    row_of=_row,
)
