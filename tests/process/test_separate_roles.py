"""Controllers and brokers as processes of their own: three of each, and one of each is killed."""

from pathlib import Path

import pytest

from tests.process.clients import TOPIC, BackgroundProducer, ConfluentKafka, assert_nothing_lost
from tests.process.test_command_line import report
from tidelog.client import AdminClient
from tidelog.config import format_properties
from tidelog.testing import LocalCluster
from tidelog.testing.cluster_state import HOST
from tidelog.testing.shape import node_settings
from tidelog.testing.waiting import wait_until

pytestmark = pytest.mark.process

CONTROLLERS, BROKERS = (1, 2, 3), (4, 5, 6)
TIMEOUT_S = 60


def planned(data_dir: Path) -> LocalCluster:
    """A cluster of six whose first three nodes are only controllers, the others only brokers."""
    cluster = LocalCluster(brokers=6, data_dir=data_dir)
    state = cluster.processes.state
    voters = ",".join(f"{n}@{HOST}:{cluster.node(n).controller_port}" for n in CONTROLLERS)
    for node in cluster.nodes:
        is_broker = node.node_id in BROKERS
        listener, port = ("CONTROLLER", node.controller_port)
        if is_broker:
            listener, port = ("PLAINTEXT", node.port)
        settings = {
            **node_settings(state, node),
            "process.roles": "broker" if is_broker else "controller",
            "listeners": f"{listener}://{HOST}:{port}",
            "controller.quorum.voters": voters,
        }
        node.properties_file.write_text(format_properties(settings, "Separate roles."))
    return cluster


def unfenced(cluster: LocalCluster) -> set[int]:
    """The brokers that take part."""
    with cluster.admin() as admin:
        return {node.node_id for node in admin.describe_cluster().nodes if not node.fenced}


def active_controller(admin: AdminClient, former: int) -> int | None:
    """The leader of the quorum, once it is not the former one."""
    leader = admin.describe_quorum().leader_id
    return leader if leader not in (-1, former) else None


def test_nothing_acknowledged_is_lost_when_a_leader_and_the_active_controller_die(tmp_path):
    """Goal: brokers that are not voters replicate, and get new leaders, through the death of the
    active controller; the quorum shows them as observers; what was acknowledged is read back."""
    cluster = planned(tmp_path / "cluster")
    try:
        cluster.processes.start([*CONTROLLERS, *BROKERS])
        wait_until(lambda: unfenced(cluster) == set(BROKERS), TIMEOUT_S, "unfenced brokers")
        cluster.create_topic(TOPIC, replication_factor=3, configs={"min.insync.replicas": "2"})
        cluster.wait_for_isr(TOPIC, 0, BROKERS)
        bootstrap = ",".join(cluster.node(node_id).address for node_id in BROKERS)
        producer = BackgroundProducer(ConfluentKafka(), bootstrap)
        producer.wait_for_more(100)
        described = report("quorum", "describe", "--bootstrap-server", bootstrap)
        assert {voter["node_id"] for voter in described["voters"]} == set(CONTROLLERS)
        assert {observer["node_id"] for observer in described["observers"]} == set(BROKERS)
        leader, controller = cluster.wait_for_leader(TOPIC, 0), described["leader_id"]
        cluster.kill(controller)
        cluster.kill(leader)
        producer.wait_for_more(100)
        assert cluster.wait_for_leader(TOPIC, 0, exclude=(leader,)) in BROKERS
        with cluster.admin() as admin:
            successor = wait_until(
                lambda: active_controller(admin, controller), TIMEOUT_S, "another controller"
            )
        assert successor in CONTROLLERS
        cluster.processes.start([controller, leader])
        cluster.wait_for_isr(TOPIC, 0, BROKERS, timeout_s=TIMEOUT_S)
        answers = producer.finish()
        assert not answers.failed, list(answers.failed.items())[:3]
        rows = ConfluentKafka().read(bootstrap, max(answers.acknowledged.values()) + 1)
        assert_nothing_lost(answers, rows)
    finally:
        cluster.close(keep_directory=True)
