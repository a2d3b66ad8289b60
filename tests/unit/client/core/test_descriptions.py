"""Goal: answers of brokers of every version that may be asked are read."""

import pytest

from tidelog.client.core.descriptions import ClusterDescription
from tidelog.errors import ErrorCode
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make
from tidelog.wire.values import error, millis


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_broker_that_cannot_say_who_is_fenced_names_the_others(version: int) -> None:
    """Kafka before 4.0 answers in version 1 at most, without fenced brokers."""
    answer_type = codec.response_class(ApiKey.DESCRIBE_CLUSTER, version)
    broker = {"broker_id": 3, "host": "h", "port": 9092, "rack": None, "is_fenced": False}
    answer = make(
        answer_type,
        throttle_time=millis(0),
        error_code=error(ErrorCode.NONE),
        error_message=None,
        endpoint_type=1,
        cluster_id="c",
        controller_id=3,
        brokers=(broker,),
        cluster_authorized_operations=0,
    )
    (node,) = ClusterDescription.read(answer).nodes
    assert (node.node_id, node.fenced) == (3, False)
