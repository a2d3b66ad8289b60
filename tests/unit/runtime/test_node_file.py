"""Goal: a node's file is read with overrides on top, and an unreadable one is a usage error."""

from pathlib import Path

import pytest

from tests.unit.config.test_resolve import MINIMAL
from tidelog.errors import UsageError
from tidelog.runtime.node_file import read_node_config


def test_overrides_win_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(MINIMAL)
    assert read_node_config(file).controller.num_partitions == 1
    assert read_node_config(file, {"num.partitions": "5"}).controller.num_partitions == 5
    with pytest.raises(UsageError, match=r"unknown property `num\.partition`"):
        read_node_config(file, {"num.partition": "5"})


def test_a_listener_without_host_advertises_this_machines_name(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(MINIMAL.replace("PLAINTEXT://127.0.0.1", "PLAINTEXT://"))
    assert read_node_config(file).advertised_broker_listeners[0].host


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_an_unreadable_file_is_a_usage_error(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "server.properties"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError, match="cannot be read"):
        read_node_config(file)
