"""Members of a share group on whole nodes, through the death of leaders and coordinators."""

from dataclasses import replace

from tidelog.sim.runs.cluster import ClusterRun
from tidelog.sim.scenarios.families import swarm_of
from tidelog.sim.scenarios.fault_kinds import FaultKind


def test_a_share_group_is_done_with_every_record_though_leaders_die():
    swarm = replace(
        swarm_of("sharers", 1),
        faults=(FaultKind.KILL,),
        fault_gap_ms=1000,
        fault_length_ms=500,
        fault_phase_ms=4000,
    )
    run = ClusterRun(1, swarm)
    outcome = run.run()
    assert outcome.violation is None
    assert outcome.faults
    assert run.workload.deliveries.settled_count > 20
