"""AlterPartition (56), versions 2-3 (sent at 3): a leader asks for another ISR.

Version 2 names members without their broker epochs, which then go unchecked (-1).
"""

from typing import Final

from tidelog.broker.api.answers import answer, refused_at_top
from tidelog.broker.api.checks import CLUSTER_ACTION
from tidelog.broker.api.declaration import CONTROLLERS, ControllerApi, VersionRange
from tidelog.controller import messages
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field
from tidelog.wire.shapes import Place, Rows, Shape

_MEMBERS: Final = Rows("new_isr_with_epochs", Shape(messages.IsrMember))


def _members(partition: Entity) -> tuple[messages.IsrMember, ...]:
    if field(partition, "new_isr_with_epochs", None) is not None:
        return _MEMBERS.read(partition)
    return tuple(messages.IsrMember(broker_id, -1) for broker_id in partition.new_isr)


_RECOVERING: Final = Place(
    lambda partition: bool(partition.leader_recovery_state),
    lambda recovering: {"leader_recovery_state": int(recovering)},
)
_PROPOSAL: Final = Shape(
    messages.IsrProposal, new_isr=Place(_members, _MEMBERS.write), recovering=_RECOVERING
)
MESSAGE: Final = Shape(
    messages.AlterPartition, proposals=Rows("topics.partitions", _PROPOSAL, by=["topic_id"])
)
_ROW: Final = Shape(messages.IsrResult, recovering=_RECOVERING)
RESULT: Final = answer(
    messages.AlterPartitionResult, results=Rows("topics.partitions", _ROW, by=["topic_id"])
)

API: Final = ControllerApi(
    key=ApiKey.ALTER_PARTITION,
    doc=__doc__,
    listeners=CONTROLLERS,
    versions=VersionRange(2, 3),
    sent_version=3,
    requires=CLUSTER_ACTION,
    message=MESSAGE,
    result=RESULT,
    refusal_of=refused_at_top(topics=()),
)
