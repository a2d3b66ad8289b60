"""`python -m tests.differential.rights`: see the package's docstring."""

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from tests.differential.__main__ import common
from tests.differential.rights.brokers import Broker, both_brokers
from tests.differential.rights.cases import (
    CLIENTS,
    Phase,
    Versions,
    all_cases,
    plan,
    plan_without_entries,
)
from tests.differential.rights.known import KNOWN
from tests.differential.rights.matrix import Matrix
from tests.unit.broker.authorization_matrix import Case
from tests.unit.broker.rights_table import CONTROLLER
from tidelog.wire.api import ApiKey


class Part(NamedTuple):
    """Cases that have their own brokers."""

    name: str
    plan: Callable[[Iterable[Case]], list[Phase]]
    has: Callable[[Case], bool]
    config: dict[str, str]


PARTS: Final = (
    Part("clients", plan, lambda case: case.row.listener != CONTROLLER, {}),
    # What a controller is asked may make it resign.
    Part("controllers", plan, lambda case: case.row.listener == CONTROLLER, {}),
    Part(
        "no-entries",
        plan_without_entries,
        lambda case: True,
        {"allow.everyone.if.no.acl.found": "true"},
    ),
)


def main() -> int:
    """0 when nothing differs that is not known; 1 with the first case of each difference."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential.rights")
    parser.add_argument("--base-port", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[], help="names of APIs: CREATE_TOPICS")
    parser.add_argument("--parts", nargs="*", choices=[part.name for part in PARTS])
    parser.add_argument("--json", type=Path, help="where to write the counts")
    options = parser.parse_args()
    matrix = Matrix()
    for part in PARTS:
        if options.parts is not None and part.name not in options.parts:
            continue
        with both_brokers(options.base_port, part.config) as brokers:
            cases = [case for case in all_cases(versions_of(brokers)) if part.has(case)]
            if options.only:
                cases = [case for case in cases if case.row.key.name in options.only]
            phases = part.plan(cases)
            count = sum(len(phase.questions) for phase in phases)
            print(f"{part.name}: {count:,} cases in {len(phases)} phases", flush=True)
            matrix.run(brokers, phases)
    matrix.report()
    if options.json is not None:
        rows = sorted((ApiKey[api].value, kind, n) for (api, kind), n in matrix.asked.items())
        options.json.write_text(json.dumps({"cases": matrix.asked.total(), "asked": rows}))
    is_whole = options.parts is None and not options.only
    unused = [each.what for each in KNOWN if is_whole and not matrix.known[each]]
    for what in unused:
        print(f"known, and not seen: {what}")
    return 1 if matrix.found or unused else 0


def versions_of(brokers: tuple[Broker, Broker]) -> Versions:
    """What both serve, by listener."""
    return {
        listener: common(*(broker.versions(listener) for broker in brokers))
        for listener in (CLIENTS, CONTROLLER)
    }


if __name__ == "__main__":
    sys.exit(main())
