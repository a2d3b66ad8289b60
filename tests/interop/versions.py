"""Other versions of Apache Kafka as partners: `python -m tests.interop.versions [VERSION…]`.

Each version goes through the scenario of the mixed cluster (`mixed.py`), step by step. What came
out is written to `partners.json`, from which the page of compatibility has its table. The jars of
each version are fetched once, by Maven.
"""

import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from tests.interop.mixed import Mixed
from tests.interop.prepare import partner_jars

PARTNERS: Final = Path(__file__).with_name("partners.json")
VERSIONS: Final = {
    "3.9.1": (),
    "4.0.0": (),
    "4.1.0": ("streams.version=0",),
    "4.3.1": ("streams.version=0",),
}
"""The features that are lowered when the cluster is formatted: what Tidelog does not serve."""


def steps_of(mixed: Mixed, version: str) -> list[tuple[str, Callable[[], None]]]:
    """The scenario: what is shown, and how."""
    return [
        ("our broker joins Kafka's quorum", lambda: mixed.form(VERSIONS[version])),
        ("topics through our broker", mixed.administrate_through_ours),
        ("replicas equal, Kafka's controller", mixed.replicate),
        ("disks exchanged, our controller", mixed.exchange_disks),
        ("topics through Kafka's broker", mixed.administrate_through_kafka),
        ("ours after Kafka's `kill -9`, replicas equal", mixed.take_over_from_killed),
    ]


def try_version(version: str) -> dict[str, Any]:
    """What each step came to; the first that fails is the last."""
    results: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix=f"kafka-{version}-") as place:
        mixed = Mixed(Path(place), partner_jars(version))
        try:
            for name, step in steps_of(mixed, version):
                results[name] = "fails"
                step()
                results[name] = "works"
        except Exception as error:
            print(f"{version}: {error}", file=sys.stderr)
        finally:
            mixed.stop_all()
    return {"lowered": list(VERSIONS[version]), "steps": results}


def main(versions: Sequence[str]) -> int:
    """Tries these, or all; 1 when a step fails."""
    found = json.loads(PARTNERS.read_text()) if PARTNERS.exists() else {}
    for version in versions or VERSIONS:
        found[version] = try_version(version)
        print(version, found[version]["steps"], flush=True)
        PARTNERS.write_text(json.dumps(dict(sorted(found.items())), indent=1) + "\n")
    return int(any("fails" in each["steps"].values() for each in found.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
