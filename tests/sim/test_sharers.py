"""Members of a share group on whole nodes, through the death of leaders and coordinators."""

from dataclasses import replace

from tidelog.sim.runs.cluster import ClusterRun
from tidelog.sim.scenarios.fault_kinds import FaultKind
from tidelog.sim.scenarios.swarm import draw_plain


def test_a_share_group_is_done_with_every_record_though_leaders_die():
    swarm = replace(
        draw_plain(1),
        nodes=3,
        controllers=0,
        profile="test",
        topics=1,
        partitions=2,
        producers=("idempotent",),
        consumers=1,
        records_per_second=20,
        batch_records=3,
        admin_gap_ms=0,
        operator_gap_ms=0,
        faults=(FaultKind.KILL,),
        fault_gap_ms=1000,
        fault_length_ms=500,
        fault_phase_ms=4000,
        flush_ms=2,
        hardware="free",
        voters_in_log=False,
        voter_gap_ms=0,
        committers=0,
        members=0,
        transactors=0,
        sharers=3,
    )
    run = ClusterRun(1, swarm)
    outcome = run.run()
    assert outcome.violation is None
    assert outcome.faults
    assert run.workload.deliveries.settled_count > 20
