"""One node as a process: from a properties file to an exit code.

Order of the start, so that a refusal leaves nothing behind: the configuration, the locks on the log
directories, the ports (bound, not yet listening), the node over its log directories (which may
recover logs for a while), then the listeners open and the loop runs.

Exit codes: 0 after a clean stop, 2 for an error that the operator has to correct, 70 after a bug,
1 for everything else. The process refuses to run without assertions: they stop a node before it
writes nonsense.

This module and what it imports is a node's whole memory: no command-line framework, no table
printer, no test library.
"""

import asyncio
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import uvloop

from tidelog.config import NodeConfig, parse_assignment
from tidelog.config.sasl import shown_in_the_clear
from tidelog.env.disk import Disk, OfflineDisk
from tidelog.env.entropy import SEED_BITS
from tidelog.env.trace import Level, TraceSink
from tidelog.errors import StorageError, UsageError
from tidelog.model import Endpoint
from tidelog.runtime import clock, process
from tidelog.runtime.connection_limits import ConnectionLimits, LimitRules
from tidelog.runtime.core import Core
from tidelog.runtime.driver import EXIT_BUG, Driver
from tidelog.runtime.event_file import EventFile
from tidelog.runtime.listening import bind, close_all, listen_failure
from tidelog.runtime.log_directories import open_disks
from tidelog.runtime.log_lines import LogLines
from tidelog.runtime.network import Network
from tidelog.runtime.node_file import read_node_config
from tidelog.runtime.open_files import SPARE_DESCRIPTORS, share_of_files
from tidelog.runtime.tls_contexts import TlsContexts

if TYPE_CHECKING:
    from tidelog.runtime.refreshing import Fetched, Source

EXIT_USAGE: Final = 2
EXIT_FAILED: Final = 1

_LIFELINE_GRACE_S: Final = 5.0


CoreFactory = Callable[[NodeConfig, Sequence[Disk | OfflineDisk], int, TraceSink], Core]
"""Builds the core of a node, `broker.node.Node` in production, from the seed of its generator too.
Raises `UsageError` or `StorageError` when the log directory cannot be opened."""


@dataclass(frozen=True, slots=True)
class Started:
    """What a starting process reports to the one that launched it."""

    node_id: int
    error: str = ""
    """Empty when the node runs; otherwise what the operator reads, and why it ended."""
    hint: str = ""


def import_node() -> None:
    """Imports everything that a node runs, and the schemas of what nodes send each other: such an
    import takes ten milliseconds, which is too long for a turn."""
    process.skip_test_libraries()
    import tidelog.broker.node  # noqa: F401
    from tidelog.broker.api.catalogue import APIS

    APIS.load_sent_schemas()


def production_core(
    config: NodeConfig, disks: Sequence[Disk | OfflineDisk], prng_seed: int, trace_sink: TraceSink
) -> Core:
    """The real node. Imported late, so that tests of the driver do without it."""
    import_node()
    from tidelog.broker.node import Node

    wall_ms = time.time_ns() // 1_000_000
    return Node(config, disks, prng_seed, trace_sink, now=clock.now(), wall_ms=wall_ms)


def run_node(
    config: NodeConfig,
    *,
    make_core: CoreFactory = production_core,
    on_started: Callable[[Started], None] | None = None,
    lifeline: int | None = None,
) -> int:
    """Runs a node until it exits; returns the exit code. Errors go to stderr and, when the node
    could not start, to `on_started` as well. The node stops when the other end of `lifeline`, a
    descriptor for reading, is closed."""
    log = LogLines(f"b{config.node_id}")
    report = on_started or (lambda started: None)
    try:
        with ExitStack() as stack:
            driver, loop = _start(config, log, make_core, stack)
            if lifeline is not None:
                loop.add_reader(lifeline, _end_of_lifeline, loop, driver, lifeline)
            log.line(Level.INFO, f"runtime: started at {', '.join(map(str, config.listeners))}")
            log.flush()
            report(Started(config.node_id))
            code = driver.run()
            log.line(Level.INFO, f"runtime: stopped code={code} {driver.exit_message}".rstrip())
            log.flush()
            return code
    except UsageError as error:
        code, message, hint = EXIT_USAGE, error.message, error.hint
    except StorageError as error:
        hint = f"check the disk and the permissions of `{config.log_dir}`"
        code, message = EXIT_FAILED, str(error)
    except Exception as error:
        log.crash(error)
        report(Started(config.node_id, f"stopped by a bug: {error!r}", "see the node's log"))
        return EXIT_BUG
    _refuse(log, message, hint)
    report(Started(config.node_id, message, hint))
    return code


def _end_of_lifeline(loop: asyncio.AbstractEventLoop, driver: Driver, lifeline: int) -> None:
    loop.remove_reader(lifeline)
    driver.request_stop()
    # The process that waited for a clean stop is gone, so a second request forces it.
    loop.call_later(_LIFELINE_GRACE_S, driver.request_stop)


def _start(
    config: NodeConfig, log: LogLines, make_core: CoreFactory, stack: ExitStack
) -> tuple[Driver, asyncio.AbstractEventLoop]:
    """Everything up to the running loop, in the order of the module's text."""
    process.require_assertions()
    _report_unused(config, log)
    tls = TlsContexts.of_node(config)
    fresh = _fetch_first(config)
    _warn_of_secrets(config, log)
    descriptors = process.raise_open_files()
    file_limit = share_of_files(descriptors)
    disks, open_files = open_disks(config.all_log_dirs, file_limit, stack)
    sockets = [(endpoint, sock) for endpoint in config.listeners for sock in bind(endpoint)]
    stack.callback(close_all, [sock for _, sock in sockets])
    events = open_events(config, log)
    if events is not None:
        stack.callback(events.close)
    core = make_core(config, disks, secrets.randbits(SEED_BITS), events or log)
    loop = uvloop.new_event_loop()
    stack.callback(loop.close)
    driver = Driver(
        core,
        disks,
        log,
        loop=loop,
        network=Network(
            config.broker.connect_timeout_ms,
            ConnectionLimits(
                LimitRules.of_node(config, descriptors - file_limit - SPARE_DESCRIPTORS), clock.now
            ),
            tls,
        ),
        events=events,
    )
    for source, first in fresh:
        driver.keep_fresh(source, first)
    for number, files in enumerate(open_files):
        files.sync_later = partial(driver.sync_later, disk=number)
    if events is not None and config.events.topic_enable and config.is_broker:
        # It brings the client along, which no other part of a node needs.
        from tidelog.client.security_options import PLAINTEXT, ClientSecurity
        from tidelog.runtime.event_topic import EventTopic, stop_publishing

        own = _endpoint_of_brokers(config)
        context = tls.of_dialled(own.listener)
        security = PLAINTEXT if context is None else ClientSecurity.with_context(context)
        topic = EventTopic(own, security=security)
        events.also = topic.take
        stack.callback(stop_publishing, loop, loop.create_task(topic.run()))
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, driver.request_stop)
    loop.run_until_complete(_listen(driver, sockets, config, log))
    process.settle_memory()
    return driver, loop


def _report_unused(config: NodeConfig, log: LogLines) -> None:
    for name, instead in config.without_effect.items():
        log.line(Level.WARN, f"config start: property without effect ({instead}) name={name}")
    if config.ignored:
        names = ", ".join(config.ignored)
        log.line(Level.INFO, f"config start: properties of Kafka's own parts, ignored: {names}")
    if config.unknown:
        names = ", ".join(
            f"{name} ({why})" if why else name for name, why in config.unknown.items()
        )
        log.line(Level.WARN, f"config start: unknown properties, ignored as Kafka does: {names}")


def _warn_of_secrets(config: NodeConfig, log: LogLines) -> None:
    """What works, and shows secrets to others."""
    if config.exposed:
        names = ", ".join(config.exposed)
        text = f"every user of the machine may read secrets in the properties file: {names}"
        log.line(Level.WARN, f"config start: {text}; hint: run `chmod 600` on it")
    if shown := shown_in_the_clear(config):
        text = f"passwords and tokens cross the network as they are: {', '.join(shown)}"
        log.line(Level.WARN, f"config start: {text}; hint: use SASL_SSL, or SCRAM")


def _fetch_first(config: NodeConfig) -> "list[tuple[Source, Fetched]]":
    """The keys and tokens that the logins of this node need. Raises `UsageError`."""
    if not any(sasl.tokens or sasl.own_token for sasl in config.sasl.values()):
        return []
    from tidelog.runtime.refreshing import fetch_first, sources_of

    return [(source, fetch_first(source)) for source in sources_of(config)]


def _endpoint_of_brokers(config: NodeConfig) -> Endpoint:
    """Where this node reaches itself: as brokers do, by the name that its certificate has."""
    name = config.inter_broker_listener_name
    return next(e for e in config.advertised_listeners if e.listener == name)


def open_events(config: NodeConfig, log: LogLines) -> EventFile | None:
    """The event file in front of the log, if kept.

    A directory of its own is made and opened at once; raises `UsageError` when that fails. In a log
    directory the first event opens the file: when a node refuses the directory, nothing is written
    there.
    """
    if config.events.topic_enable and not config.events.enable:
        raise UsageError(
            "`tidelog.events.topic.enable` is `true`, but no events are kept",
            "set `tidelog.events.enable=true` as well",
        )
    if not config.events.enable:
        return None
    directory = Path(config.events.directory or config.log_dir)
    events = EventFile(
        directory,
        broker=config.node_id,
        incarnation=secrets.token_hex(8),
        segment_bytes=config.events.segment_bytes,
        segments=config.events.segments,
        onward=log,
    )
    try:
        if os.path.realpath(directory) not in map(os.path.realpath, config.all_log_dirs):
            events.open()
        return events
    except OSError as error:
        raise UsageError(
            f"no events can be written to `{directory}`: {error.strerror}",
            "correct `tidelog.events.dir`, or set `tidelog.events.enable=false`",
        ) from None


async def _listen(
    driver: Driver, sockets: list[tuple[Endpoint, socket.socket]], config: NodeConfig, log: LogLines
) -> None:
    for endpoint, sock in sockets:
        try:
            await driver.listen(endpoint.listener, sock, config.broker.listen_backlog)
        except OSError as error:
            raise listen_failure(endpoint, error) from None
    if config.metrics_port is not None:
        from tidelog.runtime.metrics import serve_metrics

        try:
            await serve_metrics(asyncio.get_running_loop(), config.metrics_port, driver)
        except OSError as error:
            endpoint = Endpoint("tidelog.metrics.port", "", config.metrics_port)
            raise listen_failure(endpoint, error) from None


def _refuse(log: LogLines, message: str, hint: str) -> None:
    log.line(Level.ERROR, f"runtime: refused to start: {message}")
    log.line(Level.ERROR, f"hint: {hint}")
    log.flush()


def main(arguments: Sequence[str]) -> int:
    """`python -m tidelog.runtime.server FILE.properties [--override K=V]…`."""
    overrides: dict[str, str] = {}
    files: list[str] = []
    pending = list(arguments)
    log = LogLines("node")
    try:
        while pending:
            argument = pending.pop(0)
            if argument == "--override" and pending:
                name, value = parse_assignment(pending.pop(0))
                overrides[name] = value
            else:
                files.append(argument)
        if len(files) != 1:
            raise UsageError(
                f"a node has one properties file, got {len(files)}",
                "run `tidelog server FILE.properties [--override NAME=VALUE]…`",
            )
        config = read_node_config(Path(files[0]), overrides)
    except UsageError as error:
        _refuse(log, error.message, error.hint)
        return EXIT_USAGE
    return run_node(config)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
