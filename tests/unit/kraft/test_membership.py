"""Voters come and go while leaders fail: one change at a time, and no two quorums at any time."""

from dataclasses import replace

import pytest

from tests.unit.kraft.cluster import Cluster, Conditions
from tidelog.config import QuorumConfig
from tidelog.env.prng import Prng
from tidelog.env.trace import Level
from tidelog.errors import ErrorCode
from tidelog.kraft.messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    ReplicaKey,
    UpdateVoterRequest,
    Voter,
)
from tidelog.kraft.quorum_state import QUORUM_STATE_PATH, RoleName
from tidelog.model import ZERO_UUID, Endpoint, Uuid

LIMIT_MS = 10_000


def dynamic(voters: int = 3, observers: int = 1, seed: int = 1, **config: object) -> Cluster:
    """A quorum with its voters in the log; all replicas follow its leader."""
    cluster = Cluster(
        seed,
        voter_count=voters,
        observer_count=observers,
        dynamic=True,
        config=QuorumConfig(**config),  # type: ignore[arg-type]
        trace_level=Level.INFO,
    )
    cluster.start_node()
    settle(cluster)
    return cluster


def settle(cluster: Cluster) -> None:
    """Waits until all running replicas follow one leader and have everything."""
    assert cluster.run_until(lambda: is_quiet(cluster), LIMIT_MS), "\n".join(cluster.lines[-30:])
    cluster.run(30)  # The fetches that acknowledge it.


def is_quiet(cluster: Cluster) -> bool:
    """One leader whom all follow, and everything is committed."""
    leader = cluster.leader()
    return leader is not None and all(
        one.quorum.leader_id == leader.node_id
        and one.quorum.high_watermark == leader.quorum.log_end_offset
        for one in cluster.alive()
    )


def lead(cluster: Cluster) -> int:
    """The leader's id."""
    leader = cluster.leader()
    assert leader is not None
    return leader.node_id


def voters(cluster: Cluster, node_id: int) -> list[int]:
    """The voters that a replica obeys."""
    return list(cluster.replicas[node_id].quorum.voters)


def answer(cluster: Cluster) -> ErrorCode:
    """The newest answer to a request for a change."""
    assert cluster.run_until(lambda: bool(cluster.answers), LIMIT_MS), "no answer"
    return cluster.answers.pop()[1].error_code


# The ordinary course --------------------------------------------------------------------------


def test_the_first_leader_repeats_the_formatted_voters_in_the_log() -> None:
    cluster = dynamic()
    for node_id, replica in cluster.replicas.items():
        assert voters(cluster, node_id) == [1, 2, 3]
        assert replica.quorum.kraft_version == 1
        assert replica.quorum.history.voters_offset == 2, "leader change, version, voters"


def test_an_observer_becomes_a_voter_and_counts() -> None:
    cluster = dynamic()
    cluster.add_voter(lead(cluster), 4)
    assert answer(cluster) is ErrorCode.NONE
    settle(cluster)
    assert all(voters(cluster, node_id) == [1, 2, 3, 4] for node_id in cluster.replicas)
    others = [node_id for node_id in (1, 2, 3) if node_id != lead(cluster)]
    cluster.kill_node(others[0])
    last = cluster.append_values(cluster.replicas[lead(cluster)], b"x")
    assert last is not None
    settle(cluster)
    cluster.kill_node(4)
    assert cluster.append_values(cluster.replicas[lead(cluster)], b"y") is not None
    cluster.run(300)
    assert not is_quiet(cluster), "two of four are no majority"


def test_a_removed_leader_sees_its_removal_committed_and_resigns() -> None:
    cluster = dynamic(observers=0)
    old = lead(cluster)
    cluster.remove_voter(old, old)
    assert answer(cluster) is ErrorCode.NONE
    assert cluster.run_until(lambda: lead_of(cluster) not in (None, old), LIMIT_MS)
    settle(cluster)
    assert old not in voters(cluster, lead(cluster))
    assert cluster.replicas[old].quorum.role.name is RoleName.FOLLOWER, "it goes on as an observer"
    assert not cluster.replicas[old].quorum.is_voter


def lead_of(cluster: Cluster) -> int | None:
    """The leader's id, if there is a leader."""
    return None if cluster.leader() is None else cluster.leader().node_id


def test_from_one_voter_to_five_and_back() -> None:
    cluster = dynamic(voters=1, observers=4)
    for node_id in (2, 3, 4, 5):
        cluster.add_voter(lead(cluster), node_id)
        assert answer(cluster) is ErrorCode.NONE
        settle(cluster)
    assert voters(cluster, 5) == [1, 2, 3, 4, 5]
    for node_id in (1, 2, 3, 4):
        cluster.remove_voter(lead(cluster), node_id)
        assert answer(cluster) is ErrorCode.NONE
        settle(cluster)
    assert lead(cluster) == 5
    assert voters(cluster, 1) == [5]


def test_a_leader_change_has_the_version_that_kafka_reads() -> None:
    """Kafka 4.3 reads version 0 whatever the record holds; directories in it are garbage to it."""
    cluster = dynamic(voters=1, observers=0)
    opening = cluster.replicas[1].state.batches[0].records[0]
    assert opening[:6] == b"\0\0" + b"\0\0\0\x01"
    assert len(opening) == 19, "one voter and one that granted, an id and no directory each"


# What is refused --------------------------------------------------------------------------------


def asked(cluster: Cluster, request: object) -> ErrorCode:
    """The leader's answer to this request."""
    cluster.ask(lead(cluster), "change", request)  # type: ignore[arg-type]
    return answer(cluster)


def test_requests_that_do_not_fit_are_refused_in_kafkas_order() -> None:
    cluster = dynamic()
    leader = lead(cluster)
    follower = next(node_id for node_id in (1, 2, 3) if node_id != leader)
    fourth = cluster.as_voters[4]
    cases = [
        (AddVoterRequest("other", fourth), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (AddVoterRequest(None, Voter(4, ZERO_UUID, fourth.endpoints)), ErrorCode.INVALID_REQUEST),
        (
            AddVoterRequest(None, Voter(4, fourth.directory_id, (Endpoint("X", "h", 1),))),
            ErrorCode.INVALID_REQUEST,
        ),
        (AddVoterRequest(None, cluster.as_voters[follower]), ErrorCode.DUPLICATE_VOTER),
        (RemoveVoterRequest(None, ReplicaKey(4, fourth.directory_id)), ErrorCode.VOTER_NOT_FOUND),
        (
            RemoveVoterRequest(None, ReplicaKey(follower, Uuid(b"w" * 16))),
            ErrorCode.VOTER_NOT_FOUND,
        ),
        (UpdateVoterRequest(None, 0, cluster.as_voters[follower]), ErrorCode.FENCED_LEADER_EPOCH),
        (UpdateVoterRequest(None, 9, cluster.as_voters[follower]), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (UpdateVoterRequest(None, 1, fourth), ErrorCode.VOTER_NOT_FOUND),
    ]
    for request, expected in cases:
        assert asked(cluster, request) is expected, request
    cluster.ask(follower, "change", AddVoterRequest(None, fourth))
    assert answer(cluster) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert voters(cluster, leader) == [1, 2, 3]


def test_static_voters_cannot_be_changed() -> None:
    cluster = Cluster(1, voter_count=3, observer_count=1)
    cluster.start_node()
    settle(cluster)
    endpoint = Endpoint("CONTROLLER", "n4", 9093)
    leader = cluster.replicas[lead(cluster)]
    leader.quorum.identity = replace(leader.quorum.identity, endpoints=(endpoint,))
    request = AddVoterRequest(None, Voter(4, Uuid(b"4" * 16), (endpoint,)))
    assert asked(cluster, request) is ErrorCode.UNSUPPORTED_VERSION


def test_a_static_voter_may_report_its_addresses_and_nothing_changes() -> None:
    """As Apache Kafka's voters do at each start."""
    cluster = static(observers=0)
    leader = cluster.replicas[lead(cluster)]
    endpoint = Endpoint("CONTROLLER", "n2", 9093)
    leader.quorum.identity = replace(leader.quorum.identity, endpoints=(endpoint,))
    before, end = dict(leader.quorum.voters), leader.log.log_end_offset
    epoch = leader.quorum.epoch
    for node_id, expected in ((2, ErrorCode.NONE), (9, ErrorCode.VOTER_NOT_FOUND)):
        report = UpdateVoterRequest(None, epoch, Voter(node_id, Uuid(b"k" * 16), (endpoint,)))
        assert asked(cluster, report) is expected
    assert (leader.quorum.voters, leader.log.log_end_offset) == (before, end)


def test_the_last_voter_stays() -> None:
    cluster = dynamic(voters=1, observers=0)
    cluster.remove_voter(1, 1)
    assert answer(cluster) is ErrorCode.VOTER_NOT_FOUND


def test_a_second_change_waits_for_the_first() -> None:
    cluster = dynamic(voters=3, observers=2)
    leader = lead(cluster)
    for node_id in (1, 2, 3):
        if node_id != leader:
            cluster.replicas[node_id].stalled = True
    cluster.remove_voter(leader, next(n for n in (1, 2, 3) if n != leader))
    cluster.add_voter(leader, 4)
    assert answer(cluster) is ErrorCode.REQUEST_TIMED_OUT


def test_a_replica_that_is_not_reached_or_lags_is_not_added() -> None:
    cluster = dynamic()
    leader = lead(cluster)
    cluster.kill_node(4)
    cluster.add_voter(leader, 4)
    assert answer(cluster) is ErrorCode.REQUEST_TIMED_OUT
    cluster.wipe_node(4)
    cluster.start_node(4)
    cluster.replicas[4].stalled = True
    cluster.append_values(cluster.replicas[leader], b"x")
    cluster.add_voter(leader, 4)
    assert answer(cluster) is ErrorCode.REQUEST_TIMED_OUT, "it has never had everything"
    assert voters(cluster, leader) == [1, 2, 3]


# Identity ---------------------------------------------------------------------------------------


def test_a_voter_with_a_wiped_disk_gives_no_vote() -> None:
    cluster = dynamic(observers=0)
    leader = lead(cluster)
    wiped, other = (node_id for node_id in (1, 2, 3) if node_id != leader)
    cluster.kill_node(wiped)
    cluster.append_values(cluster.replicas[leader], b"kept")
    cluster.run(100)
    cluster.wipe_node(wiped)
    cluster.start_node(wiped)
    cluster.run(1_000)
    assert not cluster.replicas[wiped].quorum.is_voter
    cluster.kill_node(leader)
    cluster.run(5_000)
    assert cluster.leader() is None, "one voter of three is left, whatever the wiped replica does"
    cluster.start_node(leader)
    settle(cluster)
    old = Uuid(wiped.to_bytes(16, "big"))
    cluster.remove_voter(lead(cluster), wiped, old)
    assert answer(cluster) is ErrorCode.NONE
    settle(cluster)
    cluster.add_voter(lead(cluster), wiped)
    assert answer(cluster) is ErrorCode.NONE
    settle(cluster)
    assert cluster.replicas[wiped].quorum.is_voter
    assert other in voters(cluster, wiped)


def test_the_state_file_knows_the_directory_that_was_voted_for() -> None:
    cluster = dynamic(observers=0)
    leader = lead(cluster)
    text = cluster.replicas[leader].disk.read_file(QUORUM_STATE_PATH)
    assert text is not None
    assert b'"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAA' in text
    assert text.endswith(b'"data_version":1}')


def test_a_controller_joins_by_itself_where_it_may() -> None:
    cluster = dynamic(auto_join_enable=True)
    assert cluster.run_until(lambda: 4 in voters(cluster, 1), LIMIT_MS)
    settle(cluster)
    cluster.kill_node(4)
    cluster.wipe_node(4)
    cluster.start_node(4)
    fourth = cluster.replicas[4]
    joined = cluster.run_until(lambda: fourth.quorum.is_voter, LIMIT_MS)
    assert joined, "the voter of the old disk goes, the new one comes"


# Truncation and failure ---------------------------------------------------------------------------


def test_a_change_that_is_not_committed_is_cut_off_and_the_former_set_is_back() -> None:
    cluster = dynamic(voters=3, observers=1)
    old = lead(cluster)
    cluster.isolate(old)
    cluster.remove_voter(old, next(n for n in (1, 2, 3) if n != old))
    assert len(voters(cluster, old)) == 2, "a set counts as soon as it is appended"
    others = [node_id for node_id in (1, 2, 3) if node_id != old]
    assert cluster.run_until(
        lambda: any(cluster.replicas[n].quorum.is_leader for n in others), LIMIT_MS
    )
    cluster.heal()
    settle(cluster)
    assert voters(cluster, old) == [1, 2, 3]
    assert cluster.answers, "its client was answered"
    assert cluster.answers[0][1].error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("seed", range(8))
def test_voters_change_while_leaders_fail(seed: int) -> None:
    """R41: adds, removes and wiped disks among kills, power cuts and cut links."""
    prng = Prng(1000 + seed)
    cluster = Cluster(
        seed,
        voter_count=prng.choice((1, 3, 3, 5)),
        observer_count=2,
        dynamic=True,
        steps=Conditions((1, 10), (1, 15), loss_percent=prng.choice((0, 0, 5))),
    )
    cluster.start_node()
    for _ in range(60):
        cluster.run(prng.between(10, 250))
        act(cluster, prng)
    cluster.heal()
    cluster.steps = Conditions()
    for replica in cluster.replicas.values():
        if not replica.alive:
            cluster.start(replica)
    assert cluster.run_until(lambda: is_quiet(cluster), 30_000), "no working quorum"
    assert cluster.voter_oracle.in_log
    assert cluster.append_values(cluster.replicas[lead(cluster)], b"last") is not None
    settle(cluster)


def act(cluster: Cluster, prng: Prng) -> None:
    """One thing that goes wrong, or is asked for."""
    node_id = prng.choice(tuple(cluster.replicas))
    replica = cluster.replicas[node_id]
    leaders = [one.node_id for one in cluster.alive() if one.quorum.is_leader]
    choice = prng.below(12)
    if choice < 4 and leaders:
        asked = prng.choice(leaders)
        if node_id not in cluster.replicas[asked].quorum.voters:
            cluster.add_voter(asked, node_id)
        elif may_lose(cluster, node_id):
            known = cluster.replicas[asked].quorum.voters[node_id].directory_id
            cluster.remove_voter(asked, node_id, known)
    elif choice < 6 and leaders:
        cluster.append_values(cluster.replicas[prng.choice(leaders)], b"x")
    elif choice == 6 and replica.alive:
        cluster.kill_node(node_id)
    elif choice == 7 and replica.alive:
        cluster.cut_power_of(node_id, torn=prng.chance(1, 2))
    elif choice == 8:
        cluster.isolate(node_id) if prng.chance(1, 2) else cluster.heal()
    elif not replica.alive:
        if prng.chance(1, 3) and may_lose(cluster, node_id):
            cluster.wipe_node(node_id)
        cluster.start(replica)


def may_lose(cluster: Cluster, node_id: int) -> bool:
    """Whether every set that a replica may obey keeps a majority of disks without this one.
    A quorum that goes on beyond that is lost, by any rule."""
    sets = [one.quorum.history._sets for one in cluster.replicas.values() if one.life]
    for history in sets:
        for _, members in history:
            intact = [
                key
                for key, voter in members.items()
                if key != node_id and voter.directory_id == cluster.replicas[key].key.directory_id
            ]
            if len(intact) < len(members) // 2 + 1:
                return False
    return True


# From configured voters to voters in the log ----------------------------------------------------


def static(voters: int = 3, observers: int = 1) -> Cluster:
    """A quorum with configured voters, where every node knows its own address."""
    cluster = Cluster(1, voter_count=voters, observer_count=observers, trace_level=Level.INFO)
    cluster.start_node()
    settle(cluster)
    return cluster


def upgrade(cluster: Cluster, level: int = 1, *, validate_only: bool = False) -> ErrorCode:
    """Asks the leader."""
    leader = cluster.leader()
    assert leader is not None
    return cluster.upgrade_to(leader, level, validate_only=validate_only)


def test_configured_voters_move_to_the_log_with_their_disks() -> None:
    """Goal: one batch makes the same voters, now with directories; restarts and elections go on,
    and a change of voters, impossible before, is made."""
    cluster = static()
    assert upgrade(cluster, validate_only=True) is ErrorCode.NONE
    settle(cluster)
    assert cluster.replicas[1].quorum.kraft_version == 0
    assert upgrade(cluster) is ErrorCode.NONE
    settle(cluster)
    for replica in cluster.replicas.values():
        assert replica.quorum.kraft_version == 1
        directories = {key: voter.directory_id for key, voter in replica.quorum.voters.items()}
        assert directories == {key: cluster.replicas[key].key.directory_id for key in (1, 2, 3)}
    former = lead(cluster)
    cluster.kill_node(former)
    cluster.suspect(former)
    assert cluster.run_until(lambda: lead_of(cluster) not in (None, former), LIMIT_MS)
    cluster.start_node(former)
    settle(cluster)
    cluster.remove_voter(lead(cluster), former)
    assert answer(cluster) is ErrorCode.NONE
    settle(cluster)
    assert voters(cluster, former) == [key for key in (1, 2, 3) if key != former]


def test_the_version_never_falls_and_does_not_rise_before_all_disks_are_known() -> None:
    cluster = static(observers=0)
    assert upgrade(cluster, 2) is ErrorCode.INVALID_UPDATE_VERSION
    follower = next(one for one in cluster.alive() if not one.quorum.is_leader)
    assert follower.quorum.upgrade_version(1, cluster.now)[0] is ErrorCode.NOT_CONTROLLER
    cluster.kill_node(follower.node_id)
    former = lead(cluster)
    leader = cluster.replicas[former]
    cluster.resign(leader)
    assert cluster.run_until(lambda: lead_of(cluster) is not None, LIMIT_MS)
    cluster.run(1_000)
    assert upgrade(cluster) is ErrorCode.INVALID_UPDATE_VERSION
    cluster.start_node(follower.node_id)
    settle(cluster)
    assert upgrade(cluster) is ErrorCode.NONE
    assert upgrade(cluster) is ErrorCode.NONE
    assert upgrade(cluster, 0) is ErrorCode.INVALID_UPDATE_VERSION
