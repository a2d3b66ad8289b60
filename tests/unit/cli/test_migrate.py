"""Goal: a running cluster is judged before its nodes change, and their order is shown."""

from typing import Any

import pytest

from tests.unit.cli.command import tidelog
from tests.unit.cli.test_quorum import quorum
from tests.unit.client.scripted_brokers import ScriptedBrokers
from tidelog.wire.api import ApiKey
from tidelog.wire.values import millis


def features(highest: int = 30, **finalised: int) -> dict[str, Any]:
    supported = [{"name": "metadata.version", "min_version": 7, "max_version": highest}]
    levels = [
        {"name": name, "max_version_level": level, "min_version_level": level}
        for name, level in finalised.items()
    ]
    return {
        "throttle_time": millis(0),
        "supported_features": supported,
        "finalized_features_epoch": 1,
        "finalized_features": levels,
    }


class Cluster(ScriptedBrokers):
    """Broker 2 answers; 1 to 3 are voters, and `brokers` are registered."""

    def __init__(self, brokers: tuple[int, ...] = (2,), **features_of: Any) -> None:
        super().__init__(
            {
                ApiKey.API_VERSIONS: lambda _: features(**features_of),
                ApiKey.DESCRIBE_QUORUM: quorum,
                ApiKey.DESCRIBE_CLUSTER: self.describe,
                ApiKey.METADATA: lambda _: {
                    "brokers": [],
                    "cluster_id": "one",
                    "controller_id": 2,
                    "topics": [],
                },
            }
        )
        self.brokers = brokers

    def describe(self, _: Any) -> Any:
        rows = [
            {"broker_id": i, "host": "127.0.0.1", "port": self.port, "is_fenced": False}
            for i in self.brokers
        ]
        return {"endpoint_type": 1, "cluster_id": "one", "controller_id": 2, "brokers": rows}


def check(capsys: pytest.CaptureFixture[str], cluster: Cluster) -> tuple[int, list[str]]:
    servers = cluster.bootstrap_servers
    command = ["migrate", "check", "--bootstrap-server", servers, "--output", "json"]
    done = tidelog(capsys, *command)
    return done.code, [each["reason"] for each in done.json["findings"]]


def test_a_cluster_that_fits_passes(capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(**{"metadata.version": 30}) as cluster:
        assert check(capsys, cluster) == (0, [])


def test_an_old_partner_and_a_feature_that_is_not_served_hinder(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Cluster(highest=20, **{"streams.version": 1}) as cluster:
        code, reasons = check(capsys, cluster)
    assert code == 1
    assert "older than Kafka 3.9" in reasons[0]
    assert "`streams.version` is 1" in reasons[1]


def test_brokers_change_first_and_the_active_controller_last(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Cluster(brokers=(1, 2, 3, 7)) as cluster:
        command = ["migrate", "plan", "--bootstrap-server", cluster.bootstrap_servers]
        steps = tidelog(capsys, *command, "--output", "json").json["steps"]
        table = tidelog(capsys, *command, "--to", "kafka").out
    assert [step["node_id"] for step in steps] == [7, 1, 3, 2]
    assert any("tidelog server" in text for text in steps[0]["do"])
    assert "kafka-server-start.sh" in table
