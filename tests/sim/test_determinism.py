"""The same seed is the same run: in another process, with another order of hashes."""

import gc
import json
import os
import subprocess
import sys

import pytest

from tidelog.sim.campaign.seeds import prepare, run_seed
from tidelog.sim.engine.world import World
from tidelog.sim.quorum.cluster import QuorumCluster

COMMAND = [sys.executable, "-m", "tidelog.cli.main", "sim", "replay"]


def replay(hash_seed: str, *arguments: str) -> dict[str, object]:
    """What a fresh process says of a seed."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [*COMMAND, *arguments, "--output", "json"]
    done = subprocess.run(command, env=environment, capture_output=True, check=True, text=True)
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize(
    "arguments", [("8",), ("3", "--scenario", "topics"), ("5", "--tier", "quorum")]
)
def test_two_processes_with_different_hash_seeds_agree(arguments):
    first, second = replay("1", *arguments), replay("2", *arguments)
    assert first == second
    assert first["events"]


def test_seeds_differ():
    assert run_seed("quorum", "all", 1).trace_hash != run_seed("quorum", "all", 2).trace_hash


def test_the_hash_does_not_depend_on_the_level_of_the_trace():
    loud, quiet = prepare("cluster", "all", 8).run(), run_seed("cluster", "all", 8)
    assert loud == quiet


def test_the_hash_sees_every_byte():
    def run(extra: bool) -> str:
        world = World(3)
        world.start_all()
        world.run_for(500)
        if extra:
            world.hosts[1].node.broker.wall_offset_ms += 1
        world.run_for(2_000)
        return world.trace_hash

    assert run(extra=False) == run(extra=False)
    assert run(extra=False) != run(extra=True)


def test_nothing_of_a_run_is_left_behind_it():
    """Fifty thousand seeds in one process must not take more memory than two."""

    def left() -> int:
        return sum(isinstance(each, QuorumCluster) for each in gc.get_objects())

    before = left()
    run_seed("quorum", "all", 1)
    run_seed("quorum", "all", 2)
    assert left() == before
