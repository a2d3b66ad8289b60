"""Three real nodes that log in to each other, for tests of clients that log in to them.

Controllers use PLAIN, brokers SCRAM, whose user comes from formatting.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.issuer import AUDIENCE, Issuer
from tests.issuer import NAME as ISSUER_NAME
from tidelog.client import AdminClient, ClientSecurity
from tidelog.client.core.errors import Unreachable
from tidelog.runtime.first_users import parse_first_users
from tidelog.runtime.formatting import format_node
from tidelog.runtime.node_file import read_node_config
from tidelog.testing import LocalCluster
from tidelog.testing.waiting import wait_until

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"
BEARER = "org.apache.kafka.common.security.oauthbearer."
BEARER_MODULE = f"{BEARER}OAuthBearerLoginModule required"
NODE = 'username="node" password="node-s3cret"'
CONFIG = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.plaintext.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} {NODE};",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        f'{PLAIN_MODULE} user_alice="alice-s3cret";'
    ),
    "listener.name.controller.plain.sasl.jaas.config": (
        f'{PLAIN_MODULE} {NODE} user_node="node-s3cret";'
    ),
    "connections.max.reauth.ms": "3000",
}
ALICE = ("PLAIN", "alice", "alice-s3cret")


def properties(mechanism: str, name: str, password: str) -> dict[str, str]:
    """The login of Java's clients and of ours."""
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} username="{name}" password="{password}";',
    }


def settings(cluster: LocalCluster, mechanism: str, name: str, password: str) -> dict[str, str]:
    """The login of librdkafka."""
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": name,
        "sasl.password": password,
    }


def admin_of(address: str, mechanism: str, name: str, password: str) -> AdminClient:
    """Of one node."""
    login = ClientSecurity(properties(mechanism, name, password))
    return AdminClient([address], timeout_s=5, security=login)


def token_config(issuer: Issuer) -> dict[str, str]:
    """Changes the cluster: clients and brokers log in by OAUTHBEARER, and by PLAIN as before."""
    bearer = "listener.name.plaintext.oauthbearer.sasl."
    return {
        "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        f"{bearer}jaas.config": f"{BEARER_MODULE};",
        f"{bearer}login.callback.handler.class": f"{BEARER}OAuthBearerLoginCallbackHandler",
        f"{bearer}server.callback.handler.class": f"{BEARER}OAuthBearerValidatorCallbackHandler",
        "sasl.oauthbearer.jwks.endpoint.url": issuer.keys_url,
        "sasl.oauthbearer.expected.issuer": ISSUER_NAME,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.token.endpoint.url": issuer.token_url,
        "sasl.oauthbearer.client.credentials.client.id": "node",
        "sasl.oauthbearer.client.credentials.client.secret": issuer.clients["node"],
    }


@contextmanager
def login_cluster(
    data_dir: Path, changes: Mapping[str, str] | None = None
) -> Iterator[LocalCluster]:
    """The cluster, when all brokers are unfenced."""
    cluster = LocalCluster(brokers=3, config={**CONFIG, **(changes or {})}, data_dir=data_dir)
    users = parse_first_users(["SCRAM-SHA-512=[name=node,password=node-s3cret]"])
    for node in cluster.nodes:
        config = read_node_config(node.properties_file)
        format_node(config, cluster.processes.state.cluster_id, first_users=users)
    try:
        cluster.processes.start([node.node_id for node in cluster.nodes])
        wait_until(lambda: all_unfenced(cluster), 30, "three unfenced brokers")
        yield cluster
    finally:
        cluster.close()


def all_unfenced(cluster: LocalCluster) -> bool:
    """Whether every node knows three live brokers."""
    try:
        for node in cluster.nodes:
            with admin_of(node.address, *ALICE) as admin:
                if sum(not each.fenced for each in admin.describe_cluster().nodes) < 3:
                    return False
    except Unreachable:
        return False
    return True
