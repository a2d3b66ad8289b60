"""kcat, which is librdkafka for shell scripts, against Tidelog."""

import json
import subprocess
from pathlib import Path

from tidelog.testing import LocalCluster

TIMEOUT_S = 60
LINES = 500


def kcat(cluster: LocalCluster, *arguments: str, given: str = "") -> str:
    done = subprocess.run(
        ["kcat", "-b", cluster.bootstrap_servers, "-m", str(TIMEOUT_S), *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=2 * TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_cluster_is_listed(cluster: LocalCluster):
    listed = json.loads(kcat(cluster, "-L", "-J"))
    assert {broker["id"] for broker in listed["brokers"]} == {1, 2, 3}


def test_what_was_sent_comes_back_in_order(cluster: LocalCluster):
    cluster.create_topic("kcat", partitions=1, replication_factor=3)
    lines = [f"key-{number}:value-{number}" for number in range(LINES)]
    kcat(cluster, "-P", "-t", "kcat", "-K:", "-X", "acks=all", given="\n".join(lines))
    back = kcat(cluster, "-C", "-t", "kcat", "-o", "beginning", "-e", "-q", "-K:")
    assert back.splitlines() == lines


def test_offsets_are_found_by_time(cluster: LocalCluster):
    cluster.create_topic("kcat-times", partitions=1, replication_factor=3)
    kcat(cluster, "-P", "-t", "kcat-times", given="one\ntwo\nthree")
    assert "kcat-times [0] offset 0" in kcat(cluster, "-Q", "-t", "kcat-times:0:1")
    assert "kcat-times [0] offset 3" in kcat(cluster, "-Q", "-t", "kcat-times:0:-1")


def test_it_logs_in(tmp_path: Path):
    """Debian's has a librdkafka that repeats its nonce (`test_scram`)."""
    with LocalCluster(brokers=1, data_dir=tmp_path / "cluster", secure=True) as secure:
        security = secure.security.describe()
        login = {
            "security.protocol": security["protocol"],
            "sasl.mechanism": security["mechanism"],
            "sasl.username": "admin",
            "sasl.password": security["users"][0]["password"],
            "ssl.ca.location": security["ca_pem"],
        }
        options = [part for name, value in login.items() for part in ("-X", f"{name}={value}")]
        assert "1 brokers" in kcat(secure, *options, "-L")
