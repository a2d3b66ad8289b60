"""Other versions of Apache Kafka as partners: `python -m tests.interop.versions [VERSION…]`.

Each version goes through the scenario of two nodes (`mixed.py`), step by step, through the items of
three (`items.py`) under a controller of either kind, through an upgrade of the metadata
(`upgrades.py`), and through quorums of both (`voters.py`).
What came out is written to `partners.json`, from which the page of compatibility has its table. The
jars of each version are fetched once, by Maven.
"""

import argparse
import json
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.interop.items import ITEMS, NotOffered, Trio
from tests.interop.mixed import Mixed
from tests.interop.prepare import partner_jars
from tests.interop.upgrades import LEVEL, NEWEST, upgrade
from tests.interop.voters import VOTERS, Quorum

PARTNERS: Final = Path(__file__).with_name("partners.json")
VERSIONS: Final = {
    "3.9.1": (),
    "4.0.0": (),
    "4.1.0": ("streams.version=0",),
    "4.3.1": ("streams.version=0",),
}
"""The features that are lowered when the cluster is formatted: what Tidelog does not serve."""

WORKS: Final = "works"
FAILS: Final = "fails"
NOT_OFFERED: Final = "not in this version"


def steps_of(mixed: Mixed, version: str) -> dict[str, Callable[[], None]]:
    """The scenario of two nodes: what is shown, and how. Each step needs the one before."""
    return {
        "our broker joins Kafka's quorum": lambda: mixed.form(VERSIONS[version]),
        "topics through our broker": mixed.administrate_through_ours,
        "clean stop, back as the other kind, Kafka's controller": mixed.take_over_under_kafka,
        "replicas equal, Kafka's controller": mixed.replicate,
        "disks exchanged, our controller": mixed.exchange_disks,
        "topics through Kafka's broker": mixed.administrate_through_kafka,
        "clean stop, back at once as the other kind, our controller": mixed.take_over_under_ours,
        "ours after Kafka's `kill -9`, replicas equal": mixed.take_over_from_killed,
    }


def try_scenario(place: Path, version: str, wanted: str) -> dict[str, str]:
    """What each step came to; the first that fails is the last. All of them when one is wanted."""
    mixed, results = Mixed(place, partner_jars(version)), dict[str, str]()
    steps = steps_of(mixed, version)
    if not any(re.search(wanted, name) for name in steps):
        return results
    try:
        for name, step in steps.items():
            results[name] = outcome(f"{version}, {name}", step)
            if results[name] != WORKS:
                break
    finally:
        mixed.stop_all()
    return results


def try_items(place: Path, version: str, wanted: str) -> dict[str, str]:
    """What each item came to under a controller of Kafka, and under ours."""
    trio, results = Trio(place, partner_jars(version), VERSIONS[version]), dict[str, str]()
    try:
        for kind, controller in (("Kafka's", trio.start_kafka), ("our", trio.start_ours)):
            if 1 in trio.running:
                trio.stop(1)
            for number, (name, item) in enumerate(ITEMS.items()):
                if re.search(wanted, name):
                    topic, row = f"item{number}-{kind[:3]}", f"{name}, {kind} controller"
                    results[row] = outcome(
                        f"{version}, {row}", try_item, trio, controller, item, topic
                    )
    finally:
        trio.stop_all()
    return results


def try_item(
    trio: Trio, controller: Callable[[int], None], item: Callable[[Trio, str], None], topic: str
) -> None:
    """One item, on nodes that all run. After a failure all of them start again."""
    try:
        trio.start_all(controller)
        item(trio, topic)
    except NotOffered:
        raise
    except Exception:
        for node_id in trio.ports:
            print(f"node {node_id}:", trio.log(node_id).read_text()[-1500:], file=sys.stderr)
        trio.stop_all()
        raise


def outcome(name: str, step: Callable[..., None], *arguments: object) -> str:
    """What a step came to; why it failed is printed."""
    begun = time.monotonic()
    try:
        step(*arguments)
    except NotOffered:
        result = NOT_OFFERED
    except Exception:
        traceback.print_exc()
        result = FAILS
    else:
        result = WORKS
    print(f"{name}: {result} ({time.monotonic() - begun:.0f} s)", file=sys.stderr, flush=True)
    return result


def try_voters(place: Path, version: str, wanted: str) -> dict[str, str]:
    """Quorums of both kinds."""
    results = {}
    for number, (name, (item, dynamic)) in enumerate(VOTERS.items()):
        if re.search(wanted, name):
            directory = place / f"voters-{number}"
            directory.mkdir()
            quorum = Quorum(directory, partner_jars(version), VERSIONS[version], dynamic)
            try:
                results[name] = outcome(f"{version}, {name}", item, quorum)
            finally:
                quorum.stop_all()
    return results


def try_upgrades(place: Path, version: str, wanted: str) -> dict[str, str]:
    """Under a controller of Kafka, and under ours; each time another cluster."""
    results: dict[str, str] = {}
    for kind in ("Kafka's", "our"):
        row = f"metadata.version one level up, {kind} controller"
        if not re.search(wanted, row):
            continue
        directory, newest = place / kind[:3], NEWEST[version]
        directory.mkdir()
        levels = (*VERSIONS[version], f"{LEVEL}={newest - 1}")
        trio = Trio(directory, partner_jars(version), levels)
        controller = trio.start_kafka if kind == "Kafka's" else trio.start_ours
        try:
            results[row] = outcome(f"{version}, {row}", upgrade, trio, controller, newest)
        finally:
            trio.stop_all()
    return results


def try_version(version: str, wanted: str) -> dict[str, str]:
    """Everything with one version, or the rows whose name is wanted."""
    results: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix=f"kafka-{version}-") as place:
        for each in ("scenario", "items", "upgrades", "voters"):
            (Path(place) / each).mkdir()
        results |= try_scenario(Path(place) / "scenario", version, wanted)
        results |= try_items(Path(place) / "items", version, wanted)
        results |= try_upgrades(Path(place) / "upgrades", version, wanted)
        results |= try_voters(Path(place) / "voters", version, wanted)
    return results


def main() -> int:
    """Tries versions, all unless some are named; 1 when something fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.interop.versions")
    parser.add_argument("versions", nargs="*", default=list(VERSIONS), choices=list(VERSIONS))
    parser.add_argument("--only", default="", help="rows whose name this expression finds")
    options = parser.parse_args()
    failed = 0
    for version in options.versions:
        results = try_version(version, options.only)
        failed += FAILS in results.values()
        found = json.loads(PARTNERS.read_text()) if PARTNERS.exists() else {}
        steps = {**found.get(version, {}).get("steps", {}), **results}
        found[version] = {"lowered": list(VERSIONS[version]), "steps": steps}
        PARTNERS.write_text(json.dumps(dict(sorted(found.items())), indent=1) + "\n")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
