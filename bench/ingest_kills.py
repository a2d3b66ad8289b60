"""Exactly-once delivery, tried: random SIGKILLs under an ingest, and a table judged from outside.

    make bench-ingest-kills                        # 36 kills of five kinds, at most 40 minutes
    python -m bench.ingest_kills --kills 60 --seed 7 --minutes 90
    python -m bench.ingest_kills --s3              # the table is on an S3 server

Prints one line per burst of kills and ends with one line of JSON. Exit code 1 when a record is
lost, twice or elsewhere. The rig is the tests' (`tests/pipeline/ingest_rig.py`), executors are
processes of their own (`local-cluster[2,1,1024]`).
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from tests.pipeline.ingest_rig import KillPlan, run_kills
from tests.s3_server import S3Server

from tidelog.env.prng import Prng
from tidelog.testing import LocalCluster

KINDS = ("worker", "executor", "broker", "driver", "worker", "executor", "broker", "worker", "jvm")


def kinds(count: int, seed: int) -> list[str]:
    """So many kills, every kind in turn, in a drawn order."""
    drawn = [KINDS[index % len(KINDS)] for index in range(count)]
    Prng(seed).shuffle(drawn)
    return drawn


def main() -> int:
    """Runs the campaign; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=36)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--burst", type=int, default=3, help="kills between two recoveries")
    parser.add_argument("--minutes", type=float, default=40, help="no further kill after that")
    parser.add_argument("--master", default="local-cluster[2,1,1024]")
    parser.add_argument("--base-port", type=int)
    parser.add_argument("--s3", action="store_true", help="the table is on an S3 server")
    parser.add_argument("--directory", type=Path, help="keep everything there")
    arguments = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ingest-kills-") as temporary:
        directory = arguments.directory or Path(temporary)
        with LocalCluster(3, data_dir=directory / "c", base_port=arguments.base_port) as cluster:
            cluster.create_topic("kills", partitions=3, replication_factor=3)
            store = S3Server() if arguments.s3 else None
            plan = KillPlan(
                kinds(arguments.kills, arguments.seed),
                "kills",
                directory / "ingest",
                arguments.master,
                arguments.seed,
                arguments.burst,
                store=store,
                place="" if store is None else store.place(),
            )
            until = begun + arguments.minutes * 60
            found = run_kills(cluster, plan, lambda text: print(text, flush=True), until)
            if store is not None:
                store.close()
    seconds = round(time.monotonic() - begun)
    print(json.dumps({"seed": arguments.seed, "seconds": seconds, **found.as_json()}))
    return 0 if found.is_exact else 1


if __name__ == "__main__":
    sys.exit(main())
