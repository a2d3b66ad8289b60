"""Followers' progress, the high watermark, and which are in sync."""

import pytest

from tests.unit.replication.test_isr import proposal
from tidelog.config import LogConfig
from tidelog.env.instant import LONG_AGO, Instant
from tidelog.limits import PACED_PART_OF_LAG
from tidelog.log.log import Log
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.replication.brokers import BrokerEpochs
from tidelog.replication.events.in_sync import StallReason
from tidelog.replication.isr import Committed, Pending
from tidelog.replication.leader import LeaderState
from tidelog.replication.remote_replica import RemoteReplica
from tidelog.sim.replicas.cluster import CONFIG, Cluster
from tidelog.sim.replicas.feed import MetadataFeed

LAG_MS = CONFIG.replica_lag_time_max_ms
NOW = Instant(50_000)


def fetch(remote: RemoteReplica, offset: int, leader_end: int, now: int) -> bool:
    """One fetch of a follower."""
    return remote.on_fetch(offset, 0, leader_end=leader_end, broker_epoch=1, now=Instant(now))


def test_level_with_the_leader_is_caught_up_now() -> None:
    """The leader's end is the one sampled before the read."""
    remote = RemoteReplica()
    assert fetch(remote, 10, 10, 100)
    assert remote.last_caught_up == 100
    assert not fetch(remote, 10, 12, 200)
    assert remote.last_caught_up == 100


def test_what_the_leader_had_at_the_last_fetch_counts_from_then() -> None:
    """A follower that is always one fetch behind a busy leader is in sync."""
    remote = RemoteReplica()
    fetch(remote, 10, 15, 100)
    assert remote.last_caught_up == LONG_AGO
    fetch(remote, 15, 20, 200)
    assert remote.last_caught_up == 100
    fetch(remote, 19, 25, 300)
    assert remote.last_caught_up == 100


def test_caught_up_never_goes_back() -> None:
    """A follower that lost its log is not more in sync than it was, nor less."""
    remote = RemoteReplica()
    fetch(remote, 10, 10, 100)
    assert fetch(remote, 4, 10, 300)
    assert remote.last_caught_up == 100
    assert remote.log_end_offset == 4


def test_caught_up_by_time_or_by_offset() -> None:
    """A follower of an idle leader is level for ever."""
    remote = RemoteReplica()
    assert not remote.is_caught_up(0, LAG_MS, NOW)
    fetch(remote, 10, 10, 100)
    assert remote.is_caught_up(12, LAG_MS, Instant(100 + LAG_MS))
    assert not remote.is_caught_up(12, LAG_MS, Instant(101 + LAG_MS))
    assert remote.is_caught_up(10, LAG_MS, Instant(101 + LAG_MS))
    assert remote.caught_up_ms_ago(Instant(150)) == 50
    assert RemoteReplica().caught_up_ms_ago(NOW) == -1


class World:
    """A leadership by broker 1 of three, over a real log with ten records."""

    def __init__(self, isr: tuple[int, ...] = (1, 2, 3), **config: int) -> None:
        self.feed = MetadataFeed()
        self.epochs = {node: self.feed.register(node) for node in (1, 2, 3)}
        for node in self.epochs:
            self.feed.unfence(node)
        self.brokers = BrokerEpochs()
        self.brokers.follow(self.feed.image)
        self.log = make_log(**config)
        self.state = LeaderState(1, self.log, brokers=self.brokers, config=CONFIG)
        self.state.begin_epoch(5, (1, 2, 3), isr, NOW)

    def fetched(self, node: int, offset: int, now: int = NOW) -> None:
        """A follower's fetch."""
        self.state.remotes[node].on_fetch(
            offset,
            0,
            leader_end=self.log.log_end_offset,
            broker_epoch=self.epochs[node],
            now=Instant(now),
        )

    def high_watermark(self, now: int = NOW) -> int:
        """After it was computed."""
        self.state.maybe_advance_high_watermark(Instant(now))
        self.state.check()
        return self.log.high_watermark


def make_log(**config: int) -> Log:
    """A log with ten records of epoch 0."""
    cluster = Cluster((1, 2))
    cluster.feed.create_topic("orders", (1, 2))
    cluster.run(0)
    log = cluster.brokers[1].log("orders")
    log.reconfigure(LogConfig(**config))
    for _ in range(10):
        log.append_as_leader(build_batch([Record(1, None, b"v")]), 0, 1)
    return log


def test_the_slowest_of_the_isr_decides() -> None:
    """And no replica before all have fetched."""
    world = World()
    world.fetched(2, 8)
    assert world.high_watermark() == 0
    world.fetched(3, 6)
    assert world.high_watermark() == 6
    world.fetched(3, 10)
    assert world.high_watermark() == 8


def test_it_never_goes_back() -> None:
    """Not even when a follower comes back with less."""
    world = World()
    world.fetched(2, 8)
    world.fetched(3, 8)
    assert world.high_watermark() == 8
    world.fetched(3, 2)
    assert world.high_watermark() == 8


def test_a_caught_up_outsider_that_may_join_is_waited_for() -> None:
    """Fenced, or lagging, it is not."""
    world = World(isr=(1, 2))
    world.fetched(2, 10)
    world.fetched(3, 10)
    world.log.append_as_leader(build_batch([Record(1, None, b"v")]), 5, 1)
    world.fetched(2, 11)
    assert world.high_watermark() == 10
    assert world.high_watermark(NOW + LAG_MS + 1) == 11
    fenced = World(isr=(1, 2))
    fenced.fetched(2, 10)
    fenced.fetched(3, 5)
    fenced.state.remotes[3].last_caught_up = NOW
    assert fenced.high_watermark() == 5
    fenced.feed.fence(3)
    fenced.brokers.follow(fenced.feed.image)
    assert fenced.high_watermark() == 10


def test_below_the_min_isr_it_stands_still() -> None:
    """The committed ISR counts, not the maximal one."""
    world = World(isr=(1,), min_insync_replicas=2)
    world.state.isr_state = Pending((1,), proposal(1, 2))
    world.fetched(2, 10)
    assert world.high_watermark() == 0
    assert world.state.held_back_by(NOW).reason is StallReason.UNDER_MIN_ISR
    world.state.isr_state = Committed((1, 2))
    assert world.high_watermark() == 10


def test_a_member_that_left_by_an_answer_counts_until_the_metadata_has_it() -> None:
    """And a newcomer proposed meanwhile does not end that; the next assignment does."""
    world = World()
    world.fetched(2, 10)
    world.state.commit_isr((1, 2), seen_in_metadata=False)
    assert (world.state.isr, world.state.maximal_isr) == ((1, 2), (1, 2, 3))
    assert world.high_watermark() == 0
    world.state.isr_state = Pending((1, 2), proposal(1, 2, 3))
    world.state.isr_state = Committed((1, 2))
    assert world.high_watermark() == 0
    world.state.assign((1, 2, 3), (1, 2))
    assert world.high_watermark() == 10
    world.state.commit_isr((1,), seen_in_metadata=True)
    assert world.state.maximal_isr == (1,)


def test_min_isr_is_bounded_by_the_replicas() -> None:
    """Three required of three are all; more than there are would never be reached."""
    assert World(min_insync_replicas=7).state.min_isr == 3


@pytest.mark.parametrize("pending", ["expand", "shrink"])
def test_changes_in_flight_are_waited_for(pending: str) -> None:
    """Both outcomes must be safe."""
    world = World(isr=(1, 2))
    world.fetched(2, 10)
    if pending == "expand":
        world.state.isr_state = Pending((1, 2), proposal(1, 2, 3))
    else:
        world.state.isr_state = Pending((1, 2, 3), proposal(1, 2))
    world.fetched(3, 4)
    assert world.high_watermark(NOW + 10 * LAG_MS) == 4
    held = world.state.held_back_by(NOW)
    assert (held.reason, held.log_ends) == (StallReason.REPLICAS_LACK_RECORDS, {3: 4})


def test_group_commit_counts_what_is_on_the_device() -> None:
    """Of the leader itself too."""
    world = World(isr=(1,), flush_messages=1)
    world.log.recovery_point = 3
    assert world.high_watermark() == 3
    assert world.state.held_back_by(NOW).reason is StallReason.OWN_FLUSH
    world.log.recovery_point = 10
    assert world.high_watermark() == 10


def test_a_new_leadership_knows_nothing() -> None:
    """ISR members have a full lag time to speak; the others have never been level."""
    world = World(isr=(1, 2))
    assert world.state.epoch_start_offset == 10
    two, three = world.state.remotes[2], world.state.remotes[3]
    assert (two.log_end_offset, two.last_caught_up, two.broker_epoch) == (-1, NOW, None)
    assert (three.log_end_offset, three.last_caught_up) == (-1, LONG_AGO)
    assert world.high_watermark() == 0


def test_a_re_election_keeps_what_followers_said_to_this_leadership() -> None:
    """Only the clock starts anew."""
    world = World(isr=(1, 2))
    world.fetched(2, 7)
    later = Instant(NOW + 5000)
    world.state.begin_epoch(6, (1, 2, 3), (1, 2), later)
    two = world.state.remotes[2]
    assert (two.log_end_offset, two.last_caught_up) == (7, later)
    assert world.state.remotes[3].last_caught_up == LONG_AGO


def test_who_may_join() -> None:
    """Everything committed, something of this term, the right uptime, nothing in flight."""
    world = World(isr=(1, 2))
    world.fetched(2, 10)
    assert world.high_watermark() == 10
    assert not world.state.may_expand(2)
    assert not world.state.may_expand(3)
    world.fetched(3, 9)
    assert not world.state.may_expand(3)
    world.fetched(3, 10)
    assert world.state.may_expand(3)
    world.state.remotes[3].broker_epoch = world.epochs[3] - 1
    assert not world.state.may_expand(3)
    world.fetched(3, 10)
    world.state.isr_state = Pending((1, 2), proposal(1))
    assert not world.state.may_expand(3)


def test_the_start_of_the_epoch_must_be_reached() -> None:
    """A new leader's high watermark may be behind what was committed; the epoch's start is not."""
    world = World(isr=(1, 2))
    world.fetched(3, 9)
    assert world.log.high_watermark == 0
    assert not world.state.may_expand(3)
    world.fetched(3, 10)
    assert world.state.may_expand(3)


def test_laggards() -> None:
    """Members only, by time only, and never while a change is in flight."""
    world = World(isr=(1, 2))
    world.fetched(2, 4)
    assert world.state.laggards(Instant(NOW + LAG_MS)) == ()
    late = Instant(NOW + LAG_MS + 1)
    assert world.state.laggards(late) == (2,)
    assert world.state.remotes[2].caught_up_ms_ago(late) == LAG_MS + 1
    world.state.isr_state = Pending((1, 2), proposal(1, 2, 3))
    assert world.state.laggards(late) == ()


def test_writers_wait_for_members_that_fetch_and_are_not_level() -> None:
    """The longer ago one was level, the longer; not for one that is out of sync, or that has
    stopped fetching."""
    world, usual_ms = World(isr=(1, 2)), LAG_MS // PACED_PART_OF_LAG
    pauses = []
    for after_ms in (usual_ms, usual_ms + 1, 3 * usual_ms, 8 * usual_ms):
        for node in (2, 3):
            world.fetched(node, 4, NOW + after_ms)
        pauses.append(world.state.pause_of_writers_ms(Instant(NOW + after_ms)))
    assert pauses == [0, (usual_ms + 1) // 4, 3 * usual_ms // 4, usual_ms]
    late = Instant(NOW + 9 * usual_ms)
    assert world.state.pause_of_writers_ms(late) == usual_ms
    assert world.state.pause_of_writers_ms(Instant(late + 1)) == 0
    world.fetched(2, 10, late)
    assert world.state.pause_of_writers_ms(late) == 0


def test_an_isr_outside_of_the_assignment_is_a_bug() -> None:
    """`check` names the invariant."""
    world = World(isr=(1, 2, 9))
    with pytest.raises(AssertionError, match="MaximalIsrSuperset"):
        world.state.check()


def test_the_low_watermark_is_that_of_the_alive() -> None:
    """A replica that is out of sync counts, one that is fenced does not, and one that has not
    fetched under this leadership holds it back."""
    world = World(isr=(1, 2))
    world.log.update_high_watermark(10)
    world.log.maybe_raise_log_start_offset(6)

    def reports(node: int, log_start: int) -> bool:
        return world.state.remotes[node].on_fetch(
            10, log_start, leader_end=10, broker_epoch=world.epochs[node], now=NOW
        )

    assert reports(2, 4)
    assert world.state.low_watermark == -1
    reports(3, 3)
    assert world.state.low_watermark == 3
    assert reports(3, 5) and not reports(3, 5)
    assert world.state.low_watermark == 4
    world.feed.fence(2)
    world.brokers.follow(world.feed.image)
    assert world.state.low_watermark == 5
    reports(3, 9)
    assert world.state.low_watermark == 6
