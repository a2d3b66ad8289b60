"""Leaders that move because somebody wants it, in a whole cluster."""

from tests.sim.test_cluster import led_world, partition, read_all

from tidelog.errors import ErrorCode
from tidelog.sim.client import SimClient
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make, nested
from tidelog.wire.values import error_of, millis


def elect(client: SimClient, kind: int, *numbers: int) -> ErrorCode:
    """Asks a broker, whichever it is, for an election in `t`; the code of the first partition."""
    topic_type = nested(codec.request_class(ApiKey.ELECT_LEADERS, 2), "topic_partitions")
    response = client.call(
        ApiKey.ELECT_LEADERS,
        2,
        election_type=kind,
        topic_partitions=(make(topic_type, topic="t", partitions=numbers),),
        timeout=millis(30_000),
    )
    assert error_of(response.error_code) is ErrorCode.NONE
    return error_of(response.replica_election_results[0].partition_result[0].error_code)


def test_a_preferred_election_through_any_broker_moves_the_leader_and_loses_nothing():
    world, client, preferred = led_world()
    for value in (b"a", b"b"):
        assert client.produce("t", 0, [value]).partitions[0].error_code == ErrorCode.NONE
    world.kill(preferred)
    world.run_until(lambda: partition(world, "t").leader not in (preferred, -1))
    successor = partition(world, "t").leader
    world.run_for(200)
    client = SimClient(world, successor)
    assert client.produce("t", 0, [b"c"]).partitions[0].error_code == ErrorCode.NONE
    assert elect(client, 0, 0) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    world.start(preferred)
    world.run_until(lambda: set(partition(world, "t").isr) == {1, 2, 3})
    assert partition(world, "t").leader == successor
    third = next(node_id for node_id in (1, 2, 3) if node_id not in (preferred, successor))
    assert elect(SimClient(world, third), 0, 0) is ErrorCode.NONE
    world.run_until(lambda: partition(world, "t").leader == preferred)
    assert elect(SimClient(world, third), 0, 0) is ErrorCode.ELECTION_NOT_NEEDED
    world.run_for(1_000)
    client = SimClient(world, preferred)
    assert client.produce("t", 0, [b"d"]).partitions[0].error_code == ErrorCode.NONE
    assert read_all(world, client) == [b"a", b"b", b"c", b"d"]
