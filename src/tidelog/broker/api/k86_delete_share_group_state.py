"""DeleteShareGroupState (86), version 0: share partitions are forgotten (KIP-932).

The group coordinator sends it when a share group, or its offsets in a topic, are deleted. To delete
one that is not known succeeds.
"""

from typing import Final

from tidelog.broker.api.declaration import VersionRange
from tidelog.broker.api.share_states import share_state_api
from tidelog.shares.messages import DeleteState
from tidelog.wire.api import ApiKey

API: Final = share_state_api(
    ApiKey.DELETE_SHARE_GROUP_STATE,
    __doc__,
    VersionRange(0, 0),
    asked_of=lambda partition, _: DeleteState(partition),
)
