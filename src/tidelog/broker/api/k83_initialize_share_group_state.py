"""InitializeShareGroupState (83), version 0: the state of share partitions begins (KIP-932).

The group coordinator sends it before members get a partition, and when an administrator moves the
group. A start offset of -1 leaves the beginning to the leader of the partition.
"""

from typing import Final

from tidelog.broker.api.declaration import VersionRange
from tidelog.broker.api.share_states import share_state_api
from tidelog.shares.messages import InitializeState
from tidelog.shares.records import SharePartition
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity


def _asked(partition: SharePartition, entity: Entity) -> InitializeState:
    return InitializeState(partition, entity.state_epoch, entity.start_offset)


API: Final = share_state_api(
    ApiKey.INITIALIZE_SHARE_GROUP_STATE, __doc__, VersionRange(0, 0), asked_of=_asked
)
