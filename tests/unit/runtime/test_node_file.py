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


@pytest.mark.parametrize(("mode", "exposed"), [(0o640, ()), (0o644, ("sasl.jaas.config",))])
def test_secrets_in_a_file_that_everybody_may_read_are_named(
    tmp_path: Path, mode: int, exposed: tuple[str, ...]
) -> None:
    """Kafka starts with such a file, so it is not refused."""
    file = tmp_path / "server.properties"
    file.write_text(f'{MINIMAL}\nsasl.jaas.config=X required password="s3cret";\n')
    file.chmod(mode)
    assert read_node_config(file).exposed == exposed
    overrides = {"listener.name.plaintext.plain.sasl.jaas.config": "Y required user_a=b;"}
    assert read_node_config(file, overrides).exposed == exposed
