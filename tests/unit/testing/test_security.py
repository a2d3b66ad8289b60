"""Goal: a protected cluster's files are made once, and are enough for nodes and clients."""

import ssl
from pathlib import Path
from typing import Any

import pytest

from tidelog.config import parse_node_config
from tidelog.errors import UsageError
from tidelog.runtime.first_users import parse_first_users
from tidelog.runtime.tls_contexts import TlsContexts
from tidelog.testing.cluster_state import write_state
from tidelog.testing.security import USERS, LocalSecurity
from tidelog.testing.shape import plan_cluster


def plan(tmp_path: Path, secure: bool | None) -> LocalSecurity:
    state = plan_cluster(
        tmp_path, brokers=2, base_port=0, config={}, profile="test", racks=(), secure=secure
    )
    assert state.secure
    return LocalSecurity(tmp_path.resolve())


def test_the_files_stay_and_a_node_takes_them(tmp_path: Path) -> None:
    security = plan(tmp_path, True)
    before = {path.name: path.read_bytes() for path in security.directory.iterdir()}
    security.prepare([1, 2])
    assert {path.name: path.read_bytes() for path in security.directory.iterdir()} == before
    lines = (tmp_path / "node-2" / "server.properties").read_text().splitlines()
    pairs = [line.split("=", 1) for line in lines if not line.startswith("#")]
    config = parse_node_config({name: value.replace("\\", "") for name, value in pairs})
    assert config.inter_broker_listener_name == "SSL"
    contexts = TlsContexts.of_node(config)
    for_clients = contexts.of_opened("SASL_SSL")
    assert for_clients is not None
    assert for_clients.verify_mode is ssl.CERT_NONE
    for listener in ("SSL", "CONTROLLER"):
        opened, dialled = contexts.of_opened(listener), contexts.of_dialled(listener)
        assert opened is not None
        assert opened.verify_mode is ssl.CERT_REQUIRED
        assert dialled is not None


def test_each_user_has_a_connection(tmp_path: Path) -> None:
    security = plan(tmp_path, True)
    described = security.describe()
    assert [user["name"] for user in described["users"]] == list(USERS) == ["admin", "guest"]
    for user in described["users"]:
        assert Path(user["properties_file"]).stat().st_mode & 0o077 == 0
        client = security.client(user["name"])
        assert client.context is not None
        assert client.login("c") is not None
        assert len(user["password"]) > 20
    assert len({user["password"] for user in described["users"]}) == 2
    first = parse_first_users(security.first_users())
    assert [user.name for user in first] == list(USERS)


def test_each_family_of_clients_finds_its_line(tmp_path: Path) -> None:
    security = plan(tmp_path, True)
    usage = security.usage("h:1")
    for family in ("Java, Spark", "librdkafka, kcat", "kafka-python", "kafkajs", "franz-go"):
        (line,) = (each for each in usage if each.startswith(f"{family}:"))
        named = (security.password("admin"), str(security.properties_file("admin")))
        assert any(each in line for each in named)


def test_a_directory_stays_protected_or_not(tmp_path: Path) -> None:
    shape: dict[str, Any] = {"base_port": 0, "config": {}, "profile": "test", "racks": ()}
    write_state(tmp_path, plan_cluster(tmp_path, brokers=1, **shape))
    with pytest.raises(UsageError, match="is not protected"):
        plan_cluster(tmp_path, brokers=1, secure=True, **shape)
