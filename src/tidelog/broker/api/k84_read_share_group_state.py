"""ReadShareGroupState (84), version 0: all that is known about share partitions (KIP-932).

The leader of a partition sends it when it begins to serve a group; leaders with a lower epoch are
fenced from then on.
"""

from typing import Final

from tidelog.broker.api.declaration import VersionRange
from tidelog.broker.api.share_states import Row, share_state_api
from tidelog.shares.messages import ReadState
from tidelog.shares.records import SharePartition, Snapshot
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity


def _asked(partition: SharePartition, entity: Entity) -> ReadState:
    return ReadState(partition, entity.leader_epoch)


def _row(state: Snapshot) -> Row:
    return {
        "state_epoch": state.state_epoch,
        "start_offset": state.start_offset,
        "state_batches": [each._asdict() for each in state.batches],
    }


API: Final = share_state_api(
    ApiKey.READ_SHARE_GROUP_STATE, __doc__, VersionRange(0, 0), asked_of=_asked, row_of=_row
)
