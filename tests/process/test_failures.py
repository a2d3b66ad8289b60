"""Real processes, real clients, real signals: what the product promises its users.

Every test runs the production server with the short timers of the `test` profile. Each client
produces through the fault, then everything is read back and compared with what was acknowledged.
"""

import pytest

from tests.process.clients import (
    CLIENTS,
    TOPIC,
    Answers,
    BackgroundProducer,
    ConfluentKafka,
    assert_nothing_lost,
)
from tidelog.testing import LocalCluster

pytestmark = pytest.mark.process

BY_NAME = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)


ALL = {1, 2, 3}


def start(tmp_path, brokers: int = 3) -> LocalCluster:
    """A running cluster with the topic of the clients: RF 3, min ISR 2."""
    cluster = LocalCluster(brokers=brokers, data_dir=tmp_path / "cluster")
    cluster.start()
    cluster.create_topic(
        TOPIC, partitions=1, replication_factor=3, configs={"min.insync.replicas": "2"}
    )
    cluster.wait_for_isr(TOPIC, 0, replicas_of(cluster))
    return cluster


def replicas_of(cluster: LocalCluster) -> tuple[int, ...]:
    """Where the topic's partition is."""
    return cluster.describe_topic(TOPIC).partitions[0].replicas


def quorum_leader(cluster: LocalCluster) -> int:
    """The active controller."""
    with cluster.admin() as admin:
        return admin.describe_quorum().leader_id


def read_back(cluster: LocalCluster, client, answers) -> list[tuple[int, bytes]]:
    """Everything up to the last acknowledged offset."""
    return client.read(cluster.bootstrap_servers, max(answers.acknowledged.values()) + 1)


@BY_NAME
def test_nothing_acknowledged_is_lost_through_a_kill_of_the_leader(tmp_path, client):
    with start(tmp_path) as cluster:
        producer = BackgroundProducer(client, cluster.bootstrap_servers)
        producer.wait_for_more(200)
        leader = cluster.wait_for_leader(TOPIC, 0)
        cluster.kill(leader)
        producer.wait_for_more(200)
        assert cluster.wait_for_leader(TOPIC, 0, exclude=(leader,)) != leader
        cluster.start_node(leader)
        cluster.wait_for_isr(TOPIC, 0, replicas_of(cluster))
        producer.wait_for_more(50)
        answers = producer.finish()
        assert not answers.failed, list(answers.failed.items())[:3]
        assert_nothing_lost(answers, read_back(cluster, client, answers))


@BY_NAME
def test_acks_all_goes_on_when_a_follower_is_paused(tmp_path, client):
    with start(tmp_path) as cluster:
        producer = BackgroundProducer(client, cluster.bootstrap_servers)
        producer.wait_for_more(100)
        leader = cluster.wait_for_leader(TOPIC, 0)
        follower = next(node.node_id for node in cluster.nodes if node.node_id != leader)
        cluster.pause(follower)
        cluster.wait_for_isr(TOPIC, 0, ALL - {follower})
        producer.wait_for_more(200)
        cluster.resume(follower)
        cluster.wait_for_isr(TOPIC, 0, replicas_of(cluster))
        answers = producer.finish()
        assert not answers.failed, list(answers.failed.items())[:3]
        assert_nothing_lost(answers, read_back(cluster, client, answers))


def test_two_paused_followers_mean_not_enough_replicas(tmp_path):
    """Five nodes, so that the quorum keeps its majority while two of three replicas stand still."""
    from confluent_kafka import KafkaError, Producer

    with start(tmp_path, brokers=5) as cluster:
        leader = cluster.wait_for_leader(TOPIC, 0)
        replicas = replicas_of(cluster)
        for node_id in replicas:
            if node_id != leader:
                cluster.pause(node_id)
        cluster.wait_for_isr(TOPIC, 0, {leader})
        errors: list[KafkaError | None] = []
        producer = Producer(
            {
                "bootstrap.servers": cluster.node(leader).address,
                "acks": "all",
                "retries": 0,
                "message.timeout.ms": 10_000,
                "log_level": 2,
            }
        )
        producer.produce(TOPIC, b"refused", partition=0, on_delivery=lambda e, _: errors.append(e))
        assert producer.flush(30) == 0
        assert errors[0] is not None
        assert errors[0].code() in (
            KafkaError.NOT_ENOUGH_REPLICAS,
            KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        )
        for node_id in replicas:
            if node_id != leader:
                cluster.resume(node_id)
        cluster.wait_for_isr(TOPIC, 0, replicas_of(cluster))


@pytest.mark.parametrize("how", ["terminate", "kill"])
def test_all_data_is_back_after_a_restart_of_the_whole_cluster(tmp_path, how):
    """Records of all clients side by side; each reads all of them back."""
    with start(tmp_path) as cluster:
        producers = [BackgroundProducer(each, cluster.bootstrap_servers) for each in CLIENTS]
        for producer in producers:
            producer.wait_for_more(300)
        answers = Answers()
        for producer in producers:
            answers.acknowledged |= producer.finish().acknowledged
        assert len(answers.acknowledged) >= 300 * len(CLIENTS)
        ids = [node.node_id for node in cluster.nodes]
        for node_id in ids:
            getattr(cluster, how)(node_id)
        for node_id in ids:
            cluster.start_node(node_id)
        cluster.wait_until_ready()
        cluster.wait_for_leader(TOPIC, 0)
        for client in CLIENTS:
            assert_nothing_lost(answers, read_back(cluster, client, answers))


def test_topics_are_created_while_the_controller_is_killed(tmp_path):
    with start(tmp_path) as cluster:
        names = [f"t{index}" for index in range(30)]
        controller = quorum_leader(cluster)
        for index, name in enumerate(names):
            if index == 10:
                cluster.kill(controller)
            cluster.create_topic(name, partitions=2, replication_factor=2)
        assert quorum_leader(cluster) != controller
        with cluster.admin() as admin:
            assert set(names) <= set(admin.list_topics())
        cluster.start_node(controller)
        cluster.wait_until_ready()
        client = ConfluentKafka()
        producer = BackgroundProducer(client, cluster.bootstrap_servers)
        producer.wait_for_more(20)
        answers = producer.finish()
        assert_nothing_lost(answers, read_back(cluster, client, answers))
