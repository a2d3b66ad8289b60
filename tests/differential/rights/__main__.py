"""`python -m tests.differential.rights`: see the package's docstring."""

import argparse
import json
import sys
import time
from pathlib import Path

from tests.differential.__main__ import common
from tests.differential.rights.brokers import Broker, both_brokers, settle
from tests.differential.rights.cases import CLIENTS, Versions, all_cases, plan
from tests.differential.rights.matrix import Matrix
from tests.unit.broker.rights_table import CONTROLLER
from tidelog.wire.api import ApiKey


def main() -> int:
    """0 when nothing differs that is not known; 1 with the first case of each difference."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential.rights")
    parser.add_argument("--base-port", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[], help="names of APIs")
    parser.add_argument("--running", action="store_true", help="the brokers run already")
    parser.add_argument("--json", type=Path, help="where to write the counts")
    options = parser.parse_args()
    begun = time.monotonic()
    with both_brokers(options.base_port, is_running=options.running) as brokers:
        cases = all_cases(versions_of(brokers))
        if options.only:
            cases = (case for case in cases if case.row.key.name in options.only)
        matrix = Matrix(brokers)
        for number, phase in enumerate(plan(cases)):
            for broker in brokers:
                broker.add(phase.entries)
            settle()
            matrix.ask_all(phase.questions)
            if number:
                for broker in brokers:
                    broker.remove(phase.entries)
    matrix.report(time.monotonic() - begun)
    if options.json is not None:
        rows = sorted((ApiKey[api].value, kind, n) for (api, kind), n in matrix.asked.items())
        options.json.write_text(json.dumps({"cases": matrix.asked.total(), "asked": rows}))
    return 1 if matrix.found else 0


def versions_of(brokers: tuple[Broker, Broker]) -> Versions:
    """What both serve, by listener."""
    return {
        listener: common(*(broker.versions(listener) for broker in brokers))
        for listener in (CLIENTS, CONTROLLER)
    }


if __name__ == "__main__":
    sys.exit(main())
