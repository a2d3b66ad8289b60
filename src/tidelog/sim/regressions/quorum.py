"""Scenarios of the metadata quorum: promises that a crash must not forget, and voters that are cut
off and must not disturb.

Source: KIP-595, KIP-996; KAFKA-12181, 12460.
"""

from dataclasses import replace

from tidelog.config import QuorumConfig
from tidelog.errors import ErrorCode
from tidelog.kraft.messages import QuorumFetchRequest, QuorumFetchResponse, SendRequest, VoteRequest
from tidelog.kraft.quorum_state import QUORUM_STATE_PATH, decode_state
from tidelog.model import ZERO_UUID, EpochEndOffset
from tidelog.sim.quorum.cluster import QuorumCluster
from tidelog.sim.quorum.membership import endpoint_of
from tidelog.sim.quorum.options import QUICK
from tidelog.sim.quorum.replica import Replica
from tidelog.sim.regressions.testbed import Testbed

_EMPTY = EpochEndOffset(0, 0)


def _elected(
    testbed: Testbed,
    *,
    config: QuorumConfig = QUICK,
    snapshot_every: int = 0,
    segment_bytes: int = 1 << 14,
) -> tuple[QuorumCluster, Replica, list[Replica]]:
    """Three voters, all started; the leader whom all follow, with one committed record; the two
    followers."""
    cluster = testbed.quorum(
        config=config, snapshot_every=snapshot_every, segment_bytes=segment_bytes
    )
    for replica in cluster.replicas.values():
        cluster.start(replica)
    cluster.run_until(lambda: _is_calm(cluster), 10_000)
    leader = cluster.leader()
    assert leader is not None, "Setup: there is no leader"
    cluster.append(leader, [b"first"])
    cluster.run(500)
    assert _is_calm(cluster), "Setup: no calm"
    return cluster, leader, [one for one in cluster.replicas.values() if one is not leader]


def _part(cluster: QuorumCluster, one: Replica, *others: Replica) -> None:
    """Neither receives anything of the other."""
    for other in others:
        cluster.cut(one.node_id, other.node_id)
        cluster.cut(other.node_id, one.node_id)


def _is_calm(cluster: QuorumCluster) -> bool:
    leader = cluster.leader()
    return leader is not None and all(
        one.quorum.leader_id == leader.node_id
        and one.quorum.high_watermark == leader.quorum.log_end_offset
        for one in cluster.alive()
    )


def r20_wiped_voter(testbed: Testbed) -> None:
    """What is committed is never cut, and a wiped voter is not counted for what it had.

    Origin: KAFKA-12460, KAFKA-12181
    Case: a follower receives, wrongly, that its log parts from the leader's below the high
    watermark. A voter loses its disk and comes back when the leader's log begins after a snapshot.
    On a third cluster the leader's disk stalls; a follower that has the newest record loses its
    disk and comes back empty; then the leader's disk goes on.
    Must: the follower refuses loudly to cut what is committed; the wiped voter gets the snapshot
    and rejoins; the newest record is not committed while only one voter holds it.
    """
    _refuse_to_cut(testbed)
    _rejoin_by_snapshot(testbed)
    cluster, leader, (one, other) = _elected(testbed)
    cluster.kill(other)
    leader.stalled = True
    last = cluster.append(leader, [b"second"])
    assert last is not None, "Setup: the leader does not lead"
    cluster.run_until(lambda: one.log.recovery_point > last, 1_000)
    cluster.run(20)
    testbed.must(leader.quorum.high_watermark <= last, "Setup", "committed with one flushed copy")
    cluster.kill(one)
    cluster.wipe(one)
    cluster.start(one)
    # It asks for everything from the beginning, gets it, and has not flushed it.
    cluster.run_until(lambda: one.log.log_end_offset > 0, 2_000)
    one.stalled = True
    cluster.disks.resume(leader)
    cluster.run(50)
    testbed.must(leader.quorum.high_watermark <= last, "Durability", "one copy is not a majority")
    cluster.disks.resume(one)
    cluster.start(other)
    cluster.run_until(lambda: _is_calm(cluster), 10_000)
    testbed.must(_is_calm(cluster), "Liveness", "the quorum does not work again")


def _rejoin_by_snapshot(testbed: Testbed) -> None:
    config = replace(QUICK, max_retention_bytes=1_000)
    cluster, leader, (wiped, _) = _elected(
        testbed, config=config, snapshot_every=8, segment_bytes=256
    )
    cluster.kill(wiped)
    cluster.wipe(wiped)
    for index in range(30):
        cluster.append(leader, [b"record %d" % index])
        cluster.run(200)
    testbed.must(leader.log.log_start_offset > 0, "Setup", "the log begins at the beginning")
    cluster.start(wiped)
    cluster.run_until(lambda: _is_calm(cluster), 10_000)
    testbed.must(_is_calm(cluster), "Liveness", "the wiped voter does not rejoin")
    testbed.must(
        wiped.state.records == leader.state.records,
        "SnapshotIsFoldOfLog",
        f"{len(wiped.state.records)} records of {len(leader.state.records)}",
    )


def _refuse_to_cut(testbed: Testbed) -> None:
    cluster, leader, (follower, _) = _elected(testbed)
    cluster.run_until(lambda: _fetch_of(follower) is not None, 1_000)
    request = _fetch_of(follower)
    assert request is not None, "Setup: nothing is fetched"
    answer = QuorumFetchResponse(
        error_code=ErrorCode.NONE,
        leader_id=leader.node_id,
        leader_epoch=leader.quorum.epoch,
        diverging_epoch=EpochEndOffset(leader.quorum.epoch, 1),
    )
    refused = False
    try:
        cluster.exchange.answer(follower, leader.node_id, request, answer)
    except AssertionError as fault:
        refused = "NoCommittedTruncation" in str(fault)
    testbed.must(refused, "NoCommittedTruncation", f"cut to {follower.log.log_end_offset}")


def _fetch_of(replica: Replica) -> QuorumFetchRequest | None:
    requests = (request for _, request, _ in replica.requests)
    return next((one for one in requests if isinstance(one, QuorumFetchRequest)), None)


def r40_cut_off_voter(testbed: Testbed) -> None:
    """A voter that is cut off disturbs no election, neither while it is nor when it comes back.

    Origin: KIP-996
    Case: a voter receives nothing of the leader, but all receive the voter, for seconds; then it is
    cut off in both directions, for seconds, and comes back.
    Must: the leader stays, its epoch stays, and the voter follows it in the end.
    """
    cluster, leader, (lonely, other) = _elected(testbed)
    epoch = leader.quorum.epoch
    cluster.cut(leader.node_id, lonely.node_id)
    cluster.run(3_000)
    cluster.heal()
    cluster.run(1_000)
    _must_stay(testbed, cluster, leader, epoch)
    _part(cluster, lonely, leader, other)
    cluster.run(3_000)
    cluster.heal()
    cluster.run(1_000)
    _must_stay(testbed, cluster, leader, epoch)


def _must_stay(testbed: Testbed, cluster: QuorumCluster, leader: Replica, epoch: int) -> None:
    now = (leader.quorum.is_leader, leader.quorum.epoch)
    testbed.must(now == (True, epoch), "LeaderStays", f"{now}, it led in epoch {epoch}")
    testbed.must(_is_calm(cluster), "Liveness", "the voter does not follow again")


def s01_vote_lost_with_power(testbed: Testbed) -> None:
    """A vote leaves a voter only when it cannot be forgotten any more.

    Origin: KIP-595
    Case: a voter is asked for its vote, grants it, and loses power before its disk has it; then it
    is asked for its vote in the same epoch by another.
    Must: the first vote never left the voter.
    """
    cluster = testbed.quorum()
    voter = cluster.replicas[2]
    cluster.start(voter)
    voter.stalled = True
    _ask_for_vote(cluster, 2, candidate=3, epoch=1)
    cluster.run(50)
    cluster.cut_power(voter)
    voter.stalled = False
    cluster.start(voter)
    _ask_for_vote(cluster, 2, candidate=1, epoch=1)
    cluster.run(50)
    granted = sum("on_vote_request: granted" in line for line in cluster.lines)
    testbed.must(not cluster.lines or granted == 2, "Setup", f"{granted} votes were granted")


def _ask_for_vote(
    cluster: QuorumCluster, voter: int, *, candidate: int, epoch: int, end: EpochEndOffset = _EMPTY
) -> None:
    """`end` is where the candidate's log ends."""
    request = VoteRequest(
        cluster_id=None,
        voter_id=voter,
        voter_directory_id=ZERO_UUID,
        candidate_id=candidate,
        candidate_directory_id=ZERO_UUID,
        epoch=epoch,
        last_epoch=end.leader_epoch,
        last_offset=end.end_offset,
        pre_vote=False,
    )
    sent = SendRequest(voter, request, endpoint_of(voter))
    cluster.exchange.send_request(cluster.replicas[candidate], sent)


def s08_vote_for_a_short_log(testbed: Testbed) -> None:
    """No voter is elected that lacks what is committed.

    Origin: KIP-595; Ongaro, Raft §3.6.1
    Case: a voter is cut off while records are committed by the two others; the leader dies; the
    voter asks the one that is left for its vote, in a new epoch.
    Must: it is refused.
    """
    cluster, leader, (complete, short) = _elected(testbed)
    _part(cluster, short, leader, complete)
    cluster.append(leader, [b"second"])
    cluster.run(1_000)
    testbed.must(
        complete.quorum.high_watermark > short.quorum.log_end_offset, "Setup", "nothing committed"
    )
    cluster.kill(leader)
    cluster.kill(short)
    cluster.heal()
    end = EpochEndOffset(short.log.latest_epoch, short.log.log_end_offset)
    epoch = complete.quorum.epoch + 1
    _ask_for_vote(cluster, complete.node_id, candidate=short.node_id, epoch=epoch, end=end)
    cluster.run(20)
    state = decode_state(complete.disk.read_file(QUORUM_STATE_PATH) or b"")
    voted = None if state.voted is None else state.voted.node_id
    testbed.must(voted != short.node_id, "LeaderCompleteness", f"voted for a short log: {state}")
    cluster.start(leader)
    cluster.start(short)
    cluster.run_until(lambda: _is_calm(cluster), 10_000)
    testbed.must(_is_calm(cluster), "Liveness", "the quorum does not work again")


def s11_deposed_leader(testbed: Testbed) -> None:
    """A deposed leader gives up what it wrote alone.

    Origin: KIP-595; Ongaro, Raft §3.5
    Case: the leader is cut off and writes; the others elect another one, which commits; the old
    leader comes back.
    Must: it cuts its own records and has those of the others in the end.
    """
    cluster, leader, others = _elected(testbed)
    _part(cluster, leader, *others)
    cluster.append(leader, [b"alone"])
    cluster.run_until(lambda: any(one.quorum.is_leader for one in others), 10_000)
    successor = next((one for one in others if one.quorum.is_leader), None)
    assert successor is not None, "Setup: no other voter is elected"
    cluster.append(successor, [b"together"])
    cluster.run(500)
    cluster.append(successor, [b"together again"])
    cluster.heal()
    cluster.run_until(lambda: _is_calm(cluster), 10_000)
    testbed.must(_is_calm(cluster), "Liveness", "the old leader does not follow")
    ends = {one.log.log_end_offset for one in cluster.alive()}
    epochs = {one.log.epochs.entries[-1] for one in cluster.alive()}
    testbed.must(len(ends) == len(epochs) == 1, "LogMatching", f"{ends} {epochs}")


def s14_lost_quorum_state(testbed: Testbed) -> None:
    """Who does not know any more how it voted does not vote.

    Origin: reading (promise P4, missing files)
    Case: a voter votes, in an epoch in which nothing is written; its process dies, and the file
    `quorum-state` goes missing. It starts, and is asked for its vote in the same epoch by
    another voter.
    Must: it refuses to start and names the file.
    """
    cluster = testbed.quorum()
    voter = cluster.replicas[2]
    cluster.start(voter)
    _ask_for_vote(cluster, 2, candidate=3, epoch=1)
    cluster.run(50)
    cluster.kill(voter)
    voter.disk.delete(QUORUM_STATE_PATH)
    if cluster.start(voter):
        _ask_for_vote(cluster, 2, candidate=1, epoch=1)
        cluster.run(50)
    refused = f"{QUORUM_STATE_PATH}` is missing" in cluster.lines[-1]
    testbed.must(refused, "VotesAreNotForgotten", f"the voter starts: {cluster.lines[-1]}")
