"""The whole quorum: seeds under faults, switched-off safeguards, times, and its facade."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.fixtures import kafka_disk, kafka_dump
from tests.unit.kraft.cluster import Cluster, Conditions
from tests.unit.kraft.solo import CLUSTER_ID, LOG_CONFIG, WALL_ZERO_MS, Solo, fetch, vote, voters_of
from tidelog.config import QuorumConfig
from tidelog.env.effects import EffectQueue
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.env.trace import Level, Trace, TraceList
from tidelog.kraft.core import QuorumCore
from tidelog.kraft.fetch_server import FetchServer
from tidelog.kraft.fetcher import Fetcher
from tidelog.kraft.leader import Leader
from tidelog.kraft.messages import NotLeader, ReplicaKey, ReplicaProgress, Reply, VoterIdentity
from tidelog.kraft.quorum import Quorum, QuorumEnv
from tidelog.kraft.quorum_state import ElectionState, QuorumStateFile, QuorumStateFlush, RoleName
from tidelog.kraft.requests import PeerRequests
from tidelog.kraft.roles import Ballot, Role, Unattached
from tidelog.log.loading import open_log
from tidelog.log.values import Checkpoints, LogEnv, LogFlush
from tidelog.model import METADATA_PARTITION, TopicPartition, Uuid
from tidelog.sim.campaign.seeds import QUORUM, run_seed
from tidelog.sim.quorum.oracle import QuorumOracle

SEEDS = 200
SEEDS_PER_TEST = 20


@pytest.mark.parametrize("first_seed", range(0, SEEDS, SEEDS_PER_TEST))
def test_seeds_under_faults(first_seed: int) -> None:
    """Kills, power cuts, lost messages, cut links, false alarms; then it must work again."""
    for seed in range(first_seed, first_seed + SEEDS_PER_TEST):
        outcome = run_seed(QUORUM, "all", seed)
        assert outcome.violation is None, f"seed {seed}: {outcome.violation}"
        assert outcome.acknowledged > 0, f"seed {seed} committed nothing"


def test_a_seed_gives_the_same_run_twice() -> None:
    """Every event of every node, with its time."""
    assert [trace_of(seed) for seed in (3, 4)] == [trace_of(seed) for seed in (3, 4)]
    assert trace_of(3) != trace_of(4)


def trace_of(seed: int) -> list[str]:
    """The trace of a cluster that loses its leader."""
    cluster = Cluster(seed, trace_level=Level.INFO, steps=Conditions((1, 20), (1, 20)))
    cluster.start_node()
    cluster.run(1000)
    if cluster.leader() is not None:
        cluster.cut_power_of(cluster.leader().node_id, torn=True)
    cluster.run(4000)
    return cluster.lines


# Safeguards switched off -----------------------------------------------------------------------


def violations(seeds: int) -> Iterator[str]:
    """What each failing seed reports, in the order of seeds."""
    for seed in range(seeds):
        violation = run_seed(QUORUM, "all", seed).violation
        if violation is not None:
            yield violation


def count_before_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader counts what it has written but not flushed."""
    monkeypatch.setattr(
        QuorumCore, "durable_end_offset", property(lambda core: core.log.log_end_offset)
    )
    monkeypatch.setattr(Fetcher, "may_fetch", True)


def send_before_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vote counts, and is sent, when its write is merely on the way to the disk."""
    write = QuorumStateFile.maybe_write

    def write_early(file: QuorumStateFile, state: ElectionState) -> bool:
        written = write(file, state)
        file.on_durable(file.sequence)
        return written

    monkeypatch.setattr(QuorumStateFile, "maybe_write", write_early)


def overlook_divergence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader takes every fetch for one that fits its log."""
    monkeypatch.setattr(FetchServer, "_diverging_epoch", lambda self, request: None)


def vote_for_anyone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A candidate's log is not compared."""
    for role_type in (Unattached, *Role.__subclasses__()):
        decide = role_type.decide_vote
        monkeypatch.setattr(role_type, "decide_vote", blind(decide))


def blind(decide: Callable[..., Any]) -> Callable[..., Any]:
    """The same decision for a log that always seems fresh."""
    return lambda self, request, *, log_is_fresh: decide(self, request, log_is_fresh=True)


def win_with_one_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    """No majority is needed."""
    monkeypatch.setattr(Ballot, "is_won", property(lambda ballot: bool(ballot.granting)))


def commit_any_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The high watermark may rest on entries of older epochs."""

    def raise_high_watermark(leader: Leader) -> bool:
        majority_end = leader.majority_end_offset()
        if majority_end <= leader.high_watermark:
            return False
        leader.high_watermark = majority_end
        return True

    monkeypatch.setattr(Leader, "maybe_raise_high_watermark", raise_high_watermark)


ABLATIONS = [
    (count_before_flush, True, ("DurableBeforeCounted",)),
    (count_before_flush, False, ("Durability",)),
    (overlook_divergence, True, ("CommittedForever", "LeaderCompleteness", "fetched at", "seed")),
    (vote_for_anyone, True, ("LeaderCompleteness", "NoCommittedTruncation", "CommittedForever")),
    (win_with_one_vote, True, ("ElectionSafety",)),
    (commit_any_epoch, True, ("OwnEpochFirst",)),
]


@pytest.mark.parametrize(
    ("ablation", "own_checks", "properties"),
    ABLATIONS,
    ids=[f"{ablation.__name__}-{own_checks}" for ablation, own_checks, _ in ABLATIONS],
)
def test_a_missing_safeguard_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
    ablation: Callable[[pytest.MonkeyPatch], None],
    own_checks: bool,
    properties: tuple[str, ...],
) -> None:
    """Each safeguard is switched off once; some seed breaks a property by name. Without the
    replicas' own checks the oracle, which only looks from outside, must notice."""
    ablation(monkeypatch)
    if not own_checks:
        monkeypatch.setattr(Quorum, "check", lambda self: None)
    found: list[str] = []
    for violation in violations(150):
        found.append(violation)
        if any(name in violation for name in properties):
            return
    raise AssertionError(f"no seed breaks one of {properties}: {found}")


def test_a_vote_that_was_sent_before_it_was_durable_is_given_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Voter 1 votes for 2, loses power before the write, and votes for 3. With the safeguard the
    first answer never leaves; without it the oracle sees two votes."""
    for is_safe in (True, False):
        if not is_safe:
            send_before_durable(monkeypatch)
        oracle = QuorumOracle(lambda voter, batch: False)
        for candidate_id in (2, 3):
            # A power cut in between: the second one starts with an empty disk again.
            voter = Solo()
            voter.start()
            voter.wake(0)
            voter.quorum.on_request(vote(candidate_id=candidate_id), "vote", Instant(1))
            outputs = [one for one in voter.wake(1) if isinstance(one, Reply)]
            assert bool(outputs) is not is_safe
            if outputs and candidate_id == 3:
                with pytest.raises(AssertionError, match="VoteUniqueness: 1 voted for 2 and 3"):
                    oracle.check_vote(ReplicaKey(1), 1, candidate_id)
            elif outputs:
                oracle.check_vote(ReplicaKey(1), 1, candidate_id)


# Times -----------------------------------------------------------------------------------------


def settled_cluster(seed: int, *, voter_count: int = 3) -> Cluster:
    """A working quorum with default timers on a fast network, at some random moment."""
    cluster = Cluster(seed, voter_count=voter_count, steps=Conditions((1, 2), (2, 6)))
    cluster.start_node()
    assert cluster.run_until(lambda: is_settled(cluster), 5000)
    cluster.run(cluster.prng.between(500, 1500))
    return cluster


def is_settled(cluster: Cluster) -> bool:
    """A leader whose epoch is committed."""
    leader = cluster.leader()
    return leader is not None and leader.quorum.high_watermark == leader.quorum.log_end_offset


@pytest.mark.parametrize("voter_count", [1, 3, 5])
def test_the_first_leader_is_there_within_a_quarter_second(voter_count: int) -> None:
    """From process start to a committed epoch, on twenty seeds."""
    for seed in range(20):
        cluster = Cluster(seed, voter_count=voter_count, steps=Conditions((1, 2), (2, 6)))
        cluster.start_node()
        assert cluster.run_until(lambda cluster=cluster: is_settled(cluster), 250), f"seed {seed}"


@pytest.mark.parametrize("voter_count", [3, 5])
def test_a_killed_leader_is_replaced_within_a_second(voter_count: int) -> None:
    """500 ms grace, up to 100 ms until a detector probes; exactly one epoch is spent."""
    for seed in range(20):
        cluster = settled_cluster(seed, voter_count=voter_count)
        leader = cluster.leader()
        assert leader is not None
        epoch = leader.quorum.epoch
        cluster.kill_node(leader.node_id)
        for replica in cluster.alive():
            detection = suspecting(cluster, replica.node_id, leader.node_id)
            cluster.at(500 + cluster.prng.between(0, 100), replica.in_this_life(detection))
        assert cluster.run_until(lambda cluster=cluster: is_settled(cluster), 800), f"seed {seed}"
        assert cluster.leader() is not None
        assert cluster.leader().quorum.epoch == epoch + 1


def suspecting(cluster: Cluster, node_id: int, suspect_id: int) -> Callable[[], None]:
    """The failure detector of a node reports another one."""

    def suspect() -> None:
        replica = cluster.replicas[node_id]
        cluster.act(replica, lambda: replica.quorum.on_peer_suspected(suspect_id, cluster.now))

    return suspect


def test_without_detection_the_fetch_timeout_decides() -> None:
    """Kafka's behaviour: two seconds and an election."""
    cluster = settled_cluster(1)
    assert cluster.leader() is not None
    cluster.kill_node(cluster.leader().node_id)
    killed_at = cluster.now
    assert cluster.run_until(lambda: is_settled(cluster), 5000)
    assert 1400 < cluster.now - killed_at < 4200


def test_a_restarted_cluster_leads_again_within_a_quarter_second() -> None:
    """All three processes at once, each naming the old leader from its disk."""
    for seed in range(20):
        cluster = settled_cluster(seed)
        for node_id in (1, 2, 3):
            cluster.kill_node(node_id)
        cluster.start_node()
        assert cluster.run_until(lambda cluster=cluster: is_settled(cluster), 250), f"seed {seed}"


def test_a_flapping_link_is_not_a_reason_for_an_election() -> None:
    """One follower's link to the leader comes and goes for a minute, and its detector is wrong
    each time. The leader stays, the epoch stays, and appends go on committing."""
    cluster = settled_cluster(7)
    leader = cluster.leader()
    assert leader is not None
    epoch = leader.quorum.epoch
    flapping = next(one.node_id for one in cluster.alive() if one is not leader)
    for round_number in range(60):
        cluster.cut_link(leader.node_id, flapping)
        cluster.run(300)
        suspecting(cluster, flapping, leader.node_id)()
        cluster.run(300)
        cluster.heal()
        cluster.run(400)
        last = cluster.append_values(leader, b"%d" % round_number)
        assert last is not None
        assert cluster.run_until(lambda last=last: leader.quorum.high_watermark > last, 500)
    assert leader.quorum.is_leader
    assert {one.quorum.epoch for one in cluster.alive()} == {epoch}


def test_a_voter_that_receives_nothing_does_not_disturb() -> None:
    """One-way cuts: it can send but gets no answer, then the other way round (KIP-996)."""
    for direction in (True, False):
        cluster = settled_cluster(11)
        leader = cluster.leader()
        assert leader is not None
        epoch = leader.quorum.epoch
        cut_off = next(one.node_id for one in cluster.alive() if one is not leader)
        for other in (1, 2, 3):
            if other != cut_off:
                link = (other, cut_off) if direction else (cut_off, other)
                cluster.cut(*link)
        cluster.run(20_000)
        assert leader.quorum.is_leader
        cluster.heal()
        cluster.run(5_000)
        assert {one.quorum.epoch for one in cluster.alive()} == {epoch}
        assert {one.quorum.leader_id for one in cluster.alive()} == {leader.node_id}


# The facade ------------------------------------------------------------------------------------


def test_appends_are_for_the_leader() -> None:
    """It returns the last offset of the batch; others report their role."""
    solo = Solo()
    solo.start()
    with pytest.raises(NotLeader, match="node 1 is unattached in epoch 0"):
        solo.quorum.append([b"a"], Instant(0), WALL_ZERO_MS)
    alone = Solo(voter_count=1)
    alone.lead()
    assert alone.quorum.append([b"a", b"b"], Instant(5), WALL_ZERO_MS) == 2
    assert alone.quorum.append([b"c"], Instant(5), WALL_ZERO_MS + 7) == 3
    assert (alone.quorum.log_end_offset, alone.quorum.high_watermark) == (4, 1)
    alone.settle(6)
    batches = alone.quorum.take_committed()
    assert [(one.base_offset, one.last_offset, one.records) for one in batches[1:]] == [
        (1, 2, [b"a", b"b"]),
        (3, 3, [b"c"]),
    ]
    assert batches[0].is_control
    assert batches[2].append_time_ms == WALL_ZERO_MS + 7


def test_turns_are_counted_when_something_may_have_happened() -> None:
    """A node asks for news only after a turn; a wake that finds nothing is none."""
    alone = Solo(voter_count=1)
    alone.lead()
    before = alone.quorum.turn_count
    alone.quorum.wake(Instant(6))
    assert alone.quorum.turn_count == before
    alone.quorum.append([b"a"], Instant(6), WALL_ZERO_MS)
    assert alone.quorum.turn_count == before
    assert alone.quorum.take_committed()[-1].is_control
    alone.settle(7)
    assert alone.quorum.turn_count > before
    assert [one.records for one in alone.quorum.take_committed()] == [[b"a"]]


def test_the_leader_change_record_is_kafkas() -> None:
    """Version 0: the leader, the voters, and who voted for it; stamped with wall time."""
    solo = Solo()
    solo.quorum.wall_offset_ms = WALL_ZERO_MS
    solo.lead()
    acknowledged = fetch(epoch=1, fetch_offset=1, last_fetched_epoch=1)
    solo.quorum.on_request(acknowledged, "fetch", Instant(200))
    (batch,) = solo.quorum.take_committed()
    voters = "00000001 00 00000002 00 00000003 00"
    granting = "00000001 00 00000002 00"
    assert batch.records == [
        bytes.fromhex(f"0000 00000001 04 {voters} 03 {granting} 00".replace(" ", ""))
    ]
    assert WALL_ZERO_MS <= batch.append_time_ms <= WALL_ZERO_MS + 1000


def test_only_the_leader_describes_all_replicas() -> None:
    """Voters in the order of ids, itself included; observers apart. Voters that are configured have
    no directories, whatever they fetch for: Kafka's own leader names none either."""
    solo = Solo()
    solo.lead()
    no_directory, disk = Uuid(bytes(16)), Uuid(b"d" * 16)
    for replica_id in (2, 7):
        request = fetch(
            replica_id=replica_id, replica_directory_id=disk, fetch_offset=1, last_fetched_epoch=1
        )
        solo.quorum.on_request(request, replica_id, Instant(300))
    described = solo.quorum.describe(Instant(400))
    assert described.voters == (
        ReplicaProgress(1, no_directory, 1, Instant(400), Instant(400)),
        ReplicaProgress(2, no_directory, 1, Instant(300), Instant(300)),
        ReplicaProgress(3, no_directory, -1, None, None),
    )
    assert described.observers == (ReplicaProgress(7, disk, 1, Instant(300), Instant(300)),)
    assert (described.leader_id, described.leader_epoch, described.high_watermark) == (1, 1, 1)
    assert solo.quorum.epoch_start_offset == 0
    follower = Solo()
    follower.start()
    assert follower.quorum.describe(Instant(0)).voters == ()
    assert follower.quorum.epoch_start_offset == -1


def test_flushes_of_other_logs_are_ignored() -> None:
    """The node may hand it any subject."""
    solo = Solo()
    solo.lead()
    solo.quorum.append([b"a"], Instant(100), 100)
    solo.wake(100)
    orders = LogFlush(TopicPartition("orders", 0), solo.log.topic_id, 2, True, 0)
    solo.quorum.on_flushed(orders, Instant(101))
    solo.quorum.on_flushed("anything", Instant(101))
    solo.quorum.on_flushed(QuorumStateFlush(0), Instant(101))
    assert solo.quorum.deadline() != 0, "a second flush would be requested while one is under way"


def test_it_starts_on_kafkas_own_directory() -> None:
    """Node 1 of a Kafka cluster that node 3 led: it follows 3 and asks from its log end."""
    effects, trace = EffectQueue(), Trace(TraceList())
    disk = kafka_disk("node1")
    log = open_log(
        LogEnv(disk, effects, trace),
        METADATA_PARTITION,
        LOG_CONFIG,
        Checkpoints(),
        clean=True,
        wall_ms=WALL_ZERO_MS,
    )
    quorum = Quorum(
        identity=VoterIdentity(1, Uuid(bytes(16)), CLUSTER_ID),
        voters=voters_of(3),
        log=log,
        config=QuorumConfig(),
        env=QuorumEnv(disk, effects, Prng(1), trace),
    )
    quorum.start(Instant(0))
    quorum.check()
    assert (quorum.role.name, quorum.leader_id, quorum.epoch) == (RoleName.FOLLOWER, 3, 1)
    last = kafka_dump(f"{METADATA_PARTITION}/00000000000000000000.log")[-1]
    assert quorum.log_end_offset == int(last.fields["lastOffset"]) + 1


def test_each_named_invariant_fails_when_it_is_broken() -> None:
    """With a broken state, `check()` names the right invariant."""
    solo = Solo()
    solo.lead()
    solo.quorum.check()
    role = solo.core.role
    assert isinstance(role, Leader)
    breakages: list[tuple[str, Any, str, Any]] = [
        ("DurableBeforeCounted", role, "own_end_offset", 99),
        ("OwnEpochFirst", role, "high_watermark", 0),
        ("HighWatermarkMonotonic", role, "high_watermark", 99),
        ("HighWatermarkMonotonic", solo.core, "high_watermark", 99),
        ("CommittedOnce", solo.quorum._exchange.reader, "next_offset", 1),
        ("DurableBeforeSent", role, "epoch", 2),
        ("SingleFetchInFlight", solo.core.requests, "_outstanding", two_fetches()),
        ("ValidRoles", solo.core, "role", Unattached(role.election, None, None)),
    ]
    for name, target, attribute, value in breakages:
        before = getattr(target, attribute)
        setattr(target, attribute, value)
        with pytest.raises(AssertionError, match=name):
            solo.quorum.check()
        setattr(target, attribute, before)
    solo.quorum.check()


def two_fetches() -> dict[Any, Any]:
    """Outstanding fetches to two peers, as must never be."""
    requests = PeerRequests(timeout_ms=1, backoff_ms=1)
    for peer_id in (2, 3):
        requests.on_sent(peer_id, fetch(), Instant(0))
    return requests._outstanding


def test_a_configuration_of_zero_grace_is_kafkas() -> None:
    """No early detection: a suspicion does nothing."""
    config = replace(QuorumConfig(), disconnect_grace_ms=0)
    cluster = Cluster(4, config=config)
    cluster.start_node()
    assert cluster.run_until(lambda: is_settled(cluster), 5000)
    leader = cluster.leader()
    assert leader is not None
    cluster.kill_node(leader.node_id)
    cluster.suspect(leader.node_id)
    cluster.run(1000)
    assert cluster.leader() is None
