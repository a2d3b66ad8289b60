"""Goal: what is not as the faults of a protected cluster left it does not pass as healed.

Method: one node, on which nothing is wrong at first. Then a password, a right and a certificate are
changed past `Protection`, and it has to name each of them.
"""

from pathlib import Path

from tests.chaos.protection import GUEST, OTHER_PASSWORD, PASSWORD, SETTINGS, USER, Protection
from tidelog.client.acls import Acl
from tidelog.model import Mechanism, Secret
from tidelog.testing import LocalCluster
from tidelog.testing.security import MECHANISM, node_name

PATIENCE_S = 30


def test_what_was_changed_past_it_is_named(tmp_path: Path) -> None:
    """A rotation is carried out first, so the certificate in force is not that of the start."""
    cluster = LocalCluster(1, data_dir=tmp_path / "cluster", secure=True, config=SETTINGS)
    protection = Protection(cluster, ["first", "second"])
    with cluster:
        for topic in ("first", "second", "third"):
            cluster.create_topic(topic, partitions=1, replication_factor=1)
        protection.admit()
        assert protection.rotate()
        assert protection.complaints(PATIENCE_S) == []

        assert cluster.security is not None
        with cluster.admin() as admin:
            admin.users.add(USER, Mechanism(MECHANISM), Secret(OTHER_PASSWORD))
            admin.acls.add(
                [Acl("TOPIC", "third", "LITERAL", f"User:{GUEST}", "*", "DESCRIBE", "ALLOW")]
            )
        cluster.security.key_store(node_name(1)).write_text("no certificate")

        found = protection.complaints(1)
        assert f"node 1: `{PASSWORD}` is not accepted" in found
        assert f"node 1: `{OTHER_PASSWORD}` is not refused" in found
        (seen,) = [each for each in found if "the guest sees" in each]
        assert "'third']" in seen
        port = f"port {cluster.node(1).port}"
        assert f"node 1: {port} does not show its new certificate" in found
