"""Goal: a node's process starts in the right order, refuses with a message and a code, and stops.

Method: the real server in a child process (fork of this one would share its threads), with the
echo core in place of the node; and refusals in this process, because they come before the loop.
"""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.broker.one_node import SETTINGS
from tests.unit.config.test_resolve import config_with
from tests.unit.runtime.cores import echo_factory
from tests.unit.runtime.harness import TIMEOUT_S, Client
from tidelog.config import NodeConfig, format_properties
from tidelog.config.values import EventsConfig
from tidelog.errors import StorageError, UsageError
from tidelog.model import Endpoint
from tidelog.runtime.log_lines import LogLines
from tidelog.runtime.os_disk import OsDisk
from tidelog.runtime.server import EXIT_FAILED, EXIT_USAGE, Started, main, open_events, run_node
from tidelog.testing.certificates import Authority

SERVE = """
import os, sys
from dataclasses import replace
from tests.unit.config.test_resolve import config_with
from tests.unit.runtime.cores import echo_factory
from tidelog.model import Endpoint
from tidelog.runtime.server import run_node

port, metrics_port = int(sys.argv[2]), int(sys.argv[3])
config = replace(config_with(), log_dir=sys.argv[1], metrics_port=metrics_port or None,
                 listeners=(Endpoint("PLAINTEXT", "127.0.0.1", port),))
sys.exit(run_node(config, make_core=echo_factory(lambda core: None), lifeline=0,
                  on_started=lambda started: os.write(1, (started.error or "started").encode())))
"""


def free_port() -> int:
    """A port that was free a moment ago."""
    with closing(socket.create_server(("127.0.0.1", 0))) as probe:
        return int(probe.getsockname()[1])


@contextmanager
def served(directory: Path, port: int, metrics_port: int = 0) -> Iterator[subprocess.Popen[bytes]]:
    """A server process with the echo core; stdin is its lifeline."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(directory), str(port), str(metrics_port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.read(7) == b"started"
        yield process
    finally:
        process.kill()
        process.wait(TIMEOUT_S)
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream is not None
            stream.close()


def node_config(directory: Path, port: int = 1) -> NodeConfig:
    """A config with one listener."""
    listeners = (Endpoint("PLAINTEXT", "127.0.0.1", port),)
    return replace(config_with(), log_dir=str(directory), listeners=listeners)


def refused(config: NodeConfig, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The code of a start that must fail, and what the operator read."""
    reports: list[Started] = []
    code = run_node(config, make_core=echo_factory(lambda core: None), on_started=reports.append)
    text = capsys.readouterr().err
    assert reports[0].error in text
    assert f"hint: {reports[0].hint}" in text
    return code, text


def test_sigterm_is_a_clean_stop_and_the_port_serves_until_then(tmp_path: Path) -> None:
    port = free_port()
    with served(tmp_path, port) as process:
        client = Client(port)
        assert client.ask(b"hello") == b"hello"
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0
        assert client.closed()


def test_a_bug_ends_the_process_with_code_70(tmp_path: Path) -> None:
    port = free_port()
    with served(tmp_path, port) as process:
        Client(port).write(b"bug\n")
        assert process.wait(TIMEOUT_S) == 70
        assert process.stderr is not None
        assert b"AssertionError: the core is broken" in process.stderr.read()


def test_the_end_of_the_lifeline_stops_the_node(tmp_path: Path) -> None:
    with served(tmp_path, free_port()) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(TIMEOUT_S) == 0


def test_a_port_in_use_refuses_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        code, text = refused(node_config(tmp_path, taken.getsockname()[1]), capsys)
    assert code == EXIT_USAGE
    assert "is in use" in text


def test_a_missing_directory_refuses_the_start_and_stays_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = refused(node_config(tmp_path / "none"), capsys)
    assert code == EXIT_USAGE
    assert "does not exist" in text
    assert "tidelog format" in text
    assert not (tmp_path / "none").exists()


def test_two_nodes_never_share_a_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    holder = OsDisk(str(tmp_path))
    holder.lock()
    code, text = refused(node_config(tmp_path, free_port()), capsys)
    holder.unlock()
    assert code == EXIT_USAGE
    assert "in use by another process" in text


def test_a_broken_disk_is_not_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def make_core(*_: object) -> None:
        raise StorageError("meta.properties", "Input/output error")

    config = node_config(tmp_path, free_port())
    assert run_node(config, make_core=make_core) == EXIT_FAILED  # type: ignore[arg-type]
    assert "Input/output error" in capsys.readouterr().err


def test_wrong_arguments_and_files_are_usage_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([]) == EXIT_USAGE
    assert main([str(tmp_path / "none.properties")]) == EXIT_USAGE
    file = tmp_path / "server.properties"
    file.write_text("node.id=1")
    assert main([str(file), "--override", "node.ids=2"]) == EXIT_USAGE
    text = capsys.readouterr().err
    assert "one properties file, got 0" in text
    assert "cannot be read" in text
    assert "did you mean `node.id`?" in text


PEM = Authority.create().issue("node-1", ["localhost"])
KEY, _, CHAIN = PEM.partition("-----BEGIN CERT")
OTHER_KEY = Authority.create().issue("node-1").partition("-----BEGIN CERT")[0]
STORE = {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": "-----BEGIN CERT" + CHAIN}


@pytest.mark.parametrize(
    ("protocol", "settings", "problem"),
    [
        ("SSL", {}, "`CLIENTS` uses TLS and has no certificate"),
        ("SSL", {**STORE, "ssl.keystore.key": OTHER_KEY}, "do not belong together"),
        (
            "SSL",
            {**STORE, "ssl.keystore.key": KEY, "ssl.client.auth": "required"},
            "trusts no authority",
        ),
        ("SASL_PLAINTEXT", {"sasl.enabled.mechanisms": "SCRAM-MD5"}, "SCRAM-MD5"),
        ("SASL_PLAINTEXT", {}, "GSSAPI"),
    ],
    ids=["no certificate", "other key", "no authority", "unknown mechanism", "no mechanism"],
)
def test_a_listener_that_cannot_let_clients_in_refuses_the_start(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    protocol: str,
    settings: dict[str, str],
    problem: str,
) -> None:
    """With one message, a hint, and no secret."""
    listeners = {
        "listeners": "CLIENTS://127.0.0.1:1,CONTROLLER://127.0.0.1:2",
        "inter.broker.listener.name": "CLIENTS",
        "listener.security.protocol.map": f"CLIENTS:{protocol},CONTROLLER:PLAINTEXT",
        "log.dirs": str(tmp_path),
    }
    file = tmp_path / "server.properties"
    file.write_text(format_properties({**SETTINGS, **listeners, **settings}, "A bad node."))
    assert main([str(file)]) == EXIT_USAGE
    lines = capsys.readouterr().err.splitlines()
    assert [problem in line for line in lines] == [True, False]
    assert "hint: " in lines[1]
    assert "PRIVATE KEY" not in "".join(lines)


def test_events_that_cannot_be_written_refuse_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    events = EventsConfig(enable=True, directory=str(tmp_path / "file"))
    with pytest.raises(UsageError, match="no events can be written") as refused:
        open_events(replace(config_with(), events=events), LogLines("b1"))
    assert "tidelog.events.dir" in refused.value.hint


def test_events_lie_in_the_data_directory_unless_they_are_off(tmp_path: Path) -> None:
    """The first flush makes the file: nothing is there before the node has judged the directory."""
    config = replace(config_with(), log_dir=str(tmp_path))
    assert open_events(config, LogLines("b1")) is None
    kept = open_events(replace(config, events=EventsConfig(enable=True)), LogLines("b1"))
    assert kept is not None
    assert list(tmp_path.iterdir()) == []
    kept.flush()
    kept.close()
    assert (tmp_path / "events.jsonl").exists()


def test_a_topic_of_events_needs_events(tmp_path: Path) -> None:
    events = EventsConfig(topic_enable=True)
    with pytest.raises(UsageError, match=r"topic.enable.*but no events are kept"):
        open_events(replace(config_with(), log_dir=str(tmp_path), events=events), LogLines("b1"))


def test_too_few_open_files_refuse_the_start(tmp_path: Path) -> None:
    """Goal: a limit with which nothing works is named. Method: a child with its own limit."""
    code = f"""
import resource
from tests.unit.runtime.test_server import node_config
from tidelog.runtime.server import run_node
from pathlib import Path
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
raise SystemExit(run_node(node_config(Path({str(tmp_path)!r}))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == EXIT_USAGE
    assert b"may open `100` files" in done.stderr and b"ulimit -n" in done.stderr


def test_properties_without_effect_are_logged_once_at_the_start(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Method: the start goes no further than to a directory that is not there."""
    parsed = config_with(
        num__replica__fetchers="4",
        log__flush__interval__ms="10",
        num__io__threads="8",
        metric__reporters="org.x.Y",
        colour="red",
        num__partition="3",
    )
    config = replace(
        node_config(tmp_path / "missing"),
        without_effect=parsed.without_effect,
        ignored=parsed.ignored,
        unknown=parsed.unknown,
    )
    assert run_node(config, make_core=echo_factory(lambda core: None)) == EXIT_USAGE
    lines = [line for line in capfd.readouterr().err.splitlines() if " config start: " in line]
    levels = ["WARN", "WARN", "INFO", "WARN"]
    assert [line.split()[2:4] for line in lines] == [[level, "b2"] for level in levels]
    assert "(nothing is flushed by time: set `log.flush.interval.messages`, or" in lines[0]
    assert lines[1].endswith("(one fetcher follows each leader) name=num.replica.fetchers")
    assert lines[2].endswith("Kafka's own parts, ignored: metric.reporters, num.io.threads")
    meant = "num.partition (did you mean `num.partitions`?)"
    assert lines[3].endswith(f"unknown properties, ignored as Kafka does: colour, {meant}")


def test_passwords_without_tls_are_a_warning_with_a_hint(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    login = 'X required username="a" password="b" user_a="b";'
    config = config_with(
        log__dirs=str(tmp_path / "missing"),
        listener__security__protocol__map="PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        sasl__enabled__mechanisms="PLAIN",
        sasl__mechanism__inter__broker__protocol="PLAIN",
        listener__name__plaintext__plain__sasl__jaas__config=login,
    )
    assert run_node(config, make_core=echo_factory(lambda core: None)) == EXIT_USAGE
    (warning,) = (line for line in capfd.readouterr().err.splitlines() if " WARN " in line)
    assert "as they are: PLAINTEXT:PLAIN;" in warning and "hint: " in warning


def test_secrets_that_everybody_may_read_are_a_warning_with_a_hint(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config = replace(node_config(tmp_path / "missing"), exposed=("sasl.jaas.config",))
    assert run_node(config, make_core=echo_factory(lambda core: None)) == EXIT_USAGE
    (warning,) = (line for line in capfd.readouterr().err.splitlines() if " WARN " in line)
    assert "secrets in the properties file: sasl.jaas.config" in warning
    assert "hint: " in warning and "chmod 600" in warning
