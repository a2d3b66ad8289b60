"""WriteShareGroupState (85), versions 0-1: what has changed in share partitions (KIP-932).

The leader of the partition sends it, and answers its clients when it is done. From version 1 on it
says how many records are settled from the start offset on (KIP-1226).
"""

from typing import Final

from tidelog.broker.api.declaration import VersionRange
from tidelog.broker.api.share_states import share_state_api
from tidelog.shares.batches import StateBatch
from tidelog.shares.messages import WriteState
from tidelog.shares.records import NO_COUNT, SharePartition
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field
from tidelog.wire.shapes import Shape

_RUN: Final = Shape(StateBatch)


def _asked(partition: SharePartition, entity: Entity) -> WriteState:
    return WriteState(
        partition,
        entity.state_epoch,
        entity.leader_epoch,
        entity.start_offset,
        field(entity, "delivery_complete_count", NO_COUNT),
        tuple(_RUN.read(each) for each in entity.state_batches),
    )


API: Final = share_state_api(
    ApiKey.WRITE_SHARE_GROUP_STATE, __doc__, VersionRange(0, 1), asked_of=_asked
)
