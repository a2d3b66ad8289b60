"""Clusters of other shapes, with an operator who never rests and consumers in racks."""

from dataclasses import replace

import pytest

from tidelog.sim.quorum.membership import ADDED, REMOVED
from tidelog.sim.runs.cluster import ClusterRun
from tidelog.sim.scenarios.fault_kinds import FaultKind
from tidelog.sim.scenarios.swarm import COMPOSITIONS, Swarm, draw_plain

K = FaultKind


def busy(nodes: int, controllers: int) -> Swarm:
    return replace(
        draw_plain(3),
        nodes=nodes,
        controllers=controllers,
        profile="test",
        topics=2,
        partitions=2,
        producers=("idempotent", "all"),
        consumers=2,
        racks=True,
        records_per_second=20,
        admin_gap_ms=0,
        operator_gap_ms=150,
        faults=(K.KILL, K.CLEAN_STOP, K.CUT_ONE_WAY),
        fault_gap_ms=600,
        fault_length_ms=500,
        fault_phase_ms=3_500,
    )


@pytest.mark.parametrize(("nodes", "controllers"), sorted(set(COMPOSITIONS)))
def test_a_composition_survives_faults_and_an_operator(nodes, controllers):
    run = ClusterRun(5, busy(nodes, controllers))
    outcome = run.run()
    assert outcome.violation is None
    assert outcome.acknowledged > 20
    assert len(run.world.hosts) == nodes + controllers
    text = "\n".join(run.world.lines)
    if nodes > 1:
        assert any(len(reader.favourites) for reader in run.workload.consumers)
        assert "reassign" in text


@pytest.mark.parametrize(("nodes", "controllers"), [(3, 0), (3, 3)])
def test_voters_come_and_go_on_whole_nodes(nodes, controllers):
    """Goal: the cluster works on while its voters change (KIP-853), and heals.
    Method: voters in the log, an operator who changes them all the time, and faults; the observers
    of the run compare every set with the one before."""
    swarm = replace(
        busy(nodes, controllers), operator_gap_ms=0, voters_in_log=True, voter_gap_ms=200
    )
    run = ClusterRun(6, swarm)
    outcome = run.run()
    assert outcome.violation is None
    assert outcome.acknowledged > 20
    assert {ADDED, REMOVED} <= set(outcome.marks)
    quorum = run.world.hosts[1].node.broker.quorum
    assert quorum.kraft_version == 1
