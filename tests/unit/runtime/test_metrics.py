"""Goal: a scraper gets the counters of the driver, from the node's own loop."""

from dataclasses import fields
from pathlib import Path

from tests.unit.runtime.cores import SlowCore
from tests.unit.runtime.harness import Client, running_core
from tests.unit.runtime.test_server import free_port, served
from tidelog.runtime.driver import Counters, Driver
from tidelog.runtime.metrics import METRICS, NodeCollector


def samples_of(driver: Driver) -> dict[tuple[str, ...], float]:
    """By name and label."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in NodeCollector(driver).collect()
        for sample in family.samples
    }


def test_metrics_are_served_beside_the_protocol(tmp_path: Path) -> None:
    port, metrics_port = free_port(), free_port()
    with served(tmp_path, port, metrics_port):
        client = Client(port)
        assert client.ask(b"hello") == b"hello"
        scraper = Client(metrics_port)
        scraper.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = scraper.reader.read().decode()
    assert answer.startswith("HTTP/1.1 200 OK\r\n")
    assert "tidelog_runtime_accepted_total 1.0" in answer
    assert "tidelog_runtime_connections 1.0" in answer
    assert all(f"# TYPE {metric.name} {metric.type}\n" in answer for metric in METRICS)


def test_every_counter_of_the_driver_is_a_metric() -> None:
    counters = {f"tidelog_runtime_{field.name}_total" for field in fields(Counters)}
    assert counters <= {metric.name for metric in METRICS if metric.type == "counter"}
    assert all(metric.doc.endswith(".") for metric in METRICS)


def test_turns_and_their_slow_steps_are_metrics() -> None:
    core = SlowCore()
    with running_core(core, clock=lambda: core.now_ns) as running:
        client = running.client()
        for order in (b"work 30", b"tick 10", b"work 40"):
            assert client.ask(order) == order
    samples = samples_of(running.driver)
    # Two collections, one after 30 ms of slow turns and one after 50.
    count = running.driver.counters.ticks + 2
    turns, steps = "tidelog_runtime_turn_seconds", "tidelog_runtime_slow_steps"
    classes = {bound: samples[f"{turns}_bucket", bound] for bound in ("0.005", "0.01", "0.05")}
    assert classes == {"0.005": count - 3, "0.01": count - 2, "0.05": count}
    assert samples[f"{turns}_bucket", "+Inf"] == samples[f"{turns}_count",] == count
    assert samples[f"{turns}_sum",] == 0.08
    assert samples["tidelog_runtime_longest_turn_seconds",] == 0.04
    assert samples["tidelog_runtime_longest_turn_last_minute_seconds",] == 0.04
    assert samples[f"{steps}_total", "CreateTopics"] == 2
    assert samples[f"{steps}_seconds_total", "CreateTopics"] == 0.07
    assert samples["tidelog_runtime_longest_step_seconds", "tick"] == 0.01


def test_logins_are_metrics_by_their_listener() -> None:
    core = SlowCore()
    core.client_figures.logins["SASL_SSL"] += 3
    core.client_figures.failed_logins["SASL_SSL"] += 1
    with running_core(core, clock=lambda: core.now_ns) as running:
        samples = samples_of(running.driver)
    assert samples["tidelog_logins_total", "SASL_SSL"] == 3
    assert samples["tidelog_failed_logins_total", "SASL_SSL"] == 1


def test_partitions_with_too_few_in_sync_are_a_metric() -> None:
    core = SlowCore()
    core.under_replicated = 7
    with running_core(core, clock=lambda: core.now_ns) as running:
        samples = samples_of(running.driver)
    assert samples["kafka_server_replicamanager_underreplicatedpartitions",] == 7
