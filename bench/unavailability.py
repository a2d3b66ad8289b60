"""How long a partition acknowledges nothing after its leader was killed, paused or cut off.

    make bench-unavailability                 # 20 kills, 6 pauses, 6 cuts, default settings
    python -m bench.unavailability --kills 100 --output json

One producer (`bench/probe.py`) sends a record every 2 ms to a partition of three replicas.
A round hurts the leader and waits for its successor and fifty more acknowledgements; the figure is
the longest time between two acknowledgements in the round. So it is what a client sees, its own
search for the new leader included. The nodes have default settings.

Kills and pauses are measured on nodes without anything in between, cuts on nodes behind proxies
(`tests/chaos/links.py`), which hold everything from and to the leader, clients included.
"""

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import repeat
from pathlib import Path

from bench.probe import Probe, quantile
from tests.chaos.cluster import ChaosCluster
from tests.chaos.links import CLIENT

from tidelog.testing.waiting import wait_until

TOPIC = "gap"
PATIENCE_S = 90
MORE_ACKS = 50
PAUSE_S = 0.002


@contextmanager
def running(*, proxied: bool, base_port: int | None) -> Iterator[tuple[ChaosCluster, Probe]]:
    """Three nodes with default settings, the topic, and the probe."""
    with tempfile.TemporaryDirectory(prefix="unavailability-") as directory:
        place = Path(directory) / "cluster"
        cluster = ChaosCluster(3, place, base_port=base_port, profile="default", proxied=proxied)
        with cluster:
            cluster.local.create_topic(
                TOPIC, partitions=1, replication_factor=3, configs={"min.insync.replicas": "2"}
            )
            with closing(Probe(cluster.bootstrap_servers, repeat([(TOPIC, 0)]), PAUSE_S)) as probe:
                yield cluster, probe


def hurt_leader(
    cluster: ChaosCluster, probe: Probe, begin: Callable[[int], None], end: Callable[[int], None]
) -> float:
    """One round; the gap in ms."""
    cluster.local.wait_for_isr(TOPIC, 0, cluster.ids, timeout_s=PATIENCE_S)
    probe.wait_for_more(200)
    leader = cluster.local.wait_for_leader(TOPIC, 0)
    begun = time.monotonic()
    begin(leader)
    try:
        wait_until(lambda: _is_led_anew(cluster, leader), PATIENCE_S, "another leader")
        probe.wait_for_more(MORE_ACKS)
    finally:
        end(leader)
    return max(probe.gaps_s(begun)) * 1000


def _is_led_anew(cluster: ChaosCluster, former: int) -> bool:
    found = cluster.partition(TOPIC, 0)
    return found is not None and found.leader >= 0 and found.leader != former


def measure(
    kind: str, rounds: int, base_port: int | None, report: Callable[[str], None]
) -> list[float]:
    """The gaps of so many rounds."""
    gaps: list[float] = []
    with running(proxied=kind == "cut", base_port=base_port) as (cluster, probe):
        local, links = cluster.local, cluster.links
        actions: dict[str, tuple[Callable[[int], None], Callable[[int], None]]] = {
            "kill": (local.kill, local.start_node),
            "pause": (local.pause, local.resume),
            "cut": (
                lambda node_id: links.hold(_everything_of(cluster, node_id)),
                lambda node_id: links.release(),
            ),
        }
        for number in range(rounds):
            gaps.append(hurt_leader(cluster, probe, *actions[kind]))
            report(f"{kind} {number + 1}/{rounds}: {gaps[-1]:.0f} ms")
    return gaps


def _everything_of(cluster: ChaosCluster, node_id: int) -> list[tuple[int, int]]:
    others = [CLIENT, *(one for one in cluster.ids if one != node_id)]
    return [link for one in others for link in ((node_id, one), (one, node_id))]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.unavailability", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--pauses", type=int, default=6)
    parser.add_argument("--cuts", type=int, default=6)
    parser.add_argument("--base-port", type=int)
    parser.add_argument("--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    figures: dict[str, dict[str, float]] = {}
    report = print if options.output == "table" else lambda text: None
    for kind, rounds in (("kill", options.kills), ("pause", options.pauses), ("cut", options.cuts)):
        if rounds:
            gaps = measure(kind, rounds, options.base_port, report)
            figures[kind] = {
                "rounds": rounds,
                "p50_ms": round(quantile(gaps, 50)),
                "p99_ms": round(quantile(gaps, 99)),
                "max_ms": round(max(gaps)),
            }
    if options.output == "json":
        machine = f"{os.cpu_count()} cores, {platform.machine()}"
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        print(json.dumps({**figures, "machine": machine, "at": at}))
        return
    goals = {"kill": "1,000 / 1,500", "pause": "11,000", "cut": "11,000"}
    print(f"{'leader':<8}{'rounds':>8}{'p50 ms':>10}{'p99 ms':>10}{'max ms':>10}   goal")
    for kind, row in figures.items():
        shown = "".join(f"{row[name]:>10,.0f}" for name in ("p50_ms", "p99_ms", "max_ms"))
        print(f"{kind:<8}{row['rounds']:>8}{shown}   <= {goals[kind]}")


if __name__ == "__main__":
    main()
