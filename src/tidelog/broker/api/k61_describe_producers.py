"""DescribeProducers (61), version 0: the producers of partitions, with their open transactions.

Tools ask the leader of each partition (`kafka-transactions find-hanging`, KIP-664). Producers come
in the order in which the log got to know them.
"""

from typing import Final

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import topics
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasReplicas
from tidelog.broker.connections import RequestContext
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.metadata.topic_names import name_fault
from tidelog.replication.messages import ProducersOf
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.shapes import Rows, Shape

_ROWS: Final = Rows("topics.partitions", Shape(ProducersOf, topic="name"), by=["name"])


def handle(node: HasReplicas, context: RequestContext, request: Entity, _: Instant) -> None:
    """Answers from the logs that are led here."""
    rows = [
        node.replicas.transactions.describe_producers(topic.name, number)
        if name_fault(topic.name) is None
        else ProducersOf(topic.name, number, ErrorCode.INVALID_TOPIC_EXCEPTION)
        for topic in request.topics
        for number in topic.partition_indexes
    ]
    context.answer(reply(context.response_type, **_ROWS.write(rows)))


API: Final = LocalApi(
    key=ApiKey.DESCRIBE_PRODUCERS,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 0),
    requires=(topics(Operation.READ, renamed={"partitions": "partition_indexes"}),),
    handle=handle,
)
