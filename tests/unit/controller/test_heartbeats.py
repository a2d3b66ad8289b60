"""The phases of a broker as a table; sessions, suspicions and strikes against a moving clock."""

from typing import NamedTuple

import pytest

from tests.unit.controller.harness import a_broker
from tidelog.controller.heartbeats import (
    EVERYONE_CAUGHT_UP,
    FORMER_CONTROLLER_SHARE,
    LOOKS_PER_TIMEOUT,
    BrokerSessions,
    Phase,
    ShutdownProgress,
    next_phase,
    phase_of,
)
from tidelog.controller.messages import BrokerHeartbeat
from tidelog.env.instant import Instant
from tidelog.metadata.image import BrokerImage

FENCED = a_broker(1, fenced=True, registration_offset=50)
UNFENCED = a_broker(1)
LEAVING = a_broker(1, in_controlled_shutdown=True)
LEFT = a_broker(1, in_controlled_shutdown=True, fenced=True, registration_offset=50)

# Phases ------------------------------------------------------------------------------------


class Case(NamedTuple):
    """A broker, its heartbeat, and the phase that follows."""

    broker: BrokerImage
    phase: Phase
    fence: bool = False
    stop: bool = False
    offset: int = 100
    leads: bool = False
    shutdown_offset: int = 80
    others_at: int = EVERYONE_CAUGHT_UP


CASES = {
    "fenced, caught up": Case(FENCED, Phase.UNFENCED),
    "fenced, exactly caught up": Case(FENCED, Phase.UNFENCED, offset=50),
    "fenced, one record behind": Case(FENCED, Phase.FENCED, offset=49),
    "fenced, wants to stay": Case(FENCED, Phase.FENCED, fence=True),
    "fenced, stops": Case(FENCED, Phase.SHUTDOWN_NOW, stop=True),
    "fenced, stops and behind": Case(FENCED, Phase.SHUTDOWN_NOW, stop=True, offset=0),
    "left and fenced, stops": Case(LEFT, Phase.SHUTDOWN_NOW, stop=True),
    "unfenced": Case(UNFENCED, Phase.UNFENCED, offset=0),
    "unfenced, wants a fence": Case(UNFENCED, Phase.FENCED, fence=True),
    "unfenced, wants both": Case(UNFENCED, Phase.SHUTDOWN_NOW, fence=True, stop=True, leads=True),
    "unfenced, stops, leads": Case(UNFENCED, Phase.CONTROLLED_SHUTDOWN, stop=True, leads=True),
    "unfenced, stops, leads nothing": Case(UNFENCED, Phase.SHUTDOWN_NOW, stop=True),
    "leaving, still leads": Case(LEAVING, Phase.CONTROLLED_SHUTDOWN, stop=True, leads=True),
    "leaving, others behind": Case(LEAVING, Phase.CONTROLLED_SHUTDOWN, stop=True, others_at=79),
    "leaving, others know": Case(LEAVING, Phase.SHUTDOWN_NOW, stop=True, others_at=80),
    "leaving, alone": Case(LEAVING, Phase.SHUTDOWN_NOW, stop=True),
    "leaving cannot be taken back": Case(LEAVING, Phase.SHUTDOWN_NOW),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_next_phase(case: Case) -> None:
    """Goal: the state machine of KIP-631, transition by transition."""
    heartbeat = BrokerHeartbeat(1, 10, case.offset, case.fence, case.stop)
    progress = ShutdownProgress(lambda: case.leads, case.shutdown_offset, case.others_at)
    assert next_phase(case.broker, heartbeat, progress) is case.phase


def test_phases_of_the_metadata() -> None:
    """Goal: fencing ends a controlled shutdown."""
    phases = [phase_of(broker) for broker in (FENCED, UNFENCED, LEAVING, LEFT)]
    assert phases == [Phase.FENCED, Phase.UNFENCED, Phase.CONTROLLED_SHUTDOWN, Phase.FENCED]


# Sessions ----------------------------------------------------------------------------------

TIMEOUT_MS, GRACE_MS, START = 9000, 500, 100_000
LOOK_MS = TIMEOUT_MS // LOOKS_PER_TIMEOUT


class Sessions:
    """Sessions of brokers 1 to 3, all unfenced at START, and a clock."""

    def __init__(self, grace_ms: int = GRACE_MS) -> None:
        self.tracked = BrokerSessions(TIMEOUT_MS, grace_ms)
        self.tracked.start([a_broker(1), a_broker(2), a_broker(3)], Instant(START), offset=7)

    def touch(self, *broker_ids: int, at: int, offset: int = 5) -> None:
        for broker_id in broker_ids:
            self.tracked.touch(broker_id, offset, Instant(START + at))

    def fenced(self, until: int) -> list[tuple[int, int, bool]]:
        """(time, broker, on suspicion) of what is fenced while waking at each deadline."""
        found = []
        while True:
            deadline = self.tracked.deadline()
            assert deadline is not None
            if deadline > START + until:
                return found
            stale = self.tracked.next_stale(deadline)
            if stale is not None:
                found.append((deadline - START, stale.broker_id, stale.suspected))
                self.tracked.on_fenced(
                    stale.broker_id, expired=not stale.suspected, suspected=stale.suspected
                )

    def suspect(self, broker_id: int, at: int) -> bool:
        return self.tracked.on_suspected(broker_id, Instant(START + at))


def test_fenced_between_100_and_103_percent_of_the_timeout() -> None:
    """Goal: looked at 32 times per timeout, so never early and at most one look late."""
    for last in range(0, 3000, 250):
        sessions = Sessions()
        sessions.touch(1, 2, at=6000)
        sessions.touch(3, at=last)
        [(when, broker_id, _)] = sessions.fenced(until=14_000)
        assert broker_id == 3
        assert last + TIMEOUT_MS <= when <= last + TIMEOUT_MS + LOOK_MS


def test_one_broker_per_look_and_again_at_once() -> None:
    """Goal: two silent brokers are fenced one after the other, the longer silent one first,
    without time passing in between."""
    sessions = Sessions()
    sessions.touch(1, at=6000)
    sessions.touch(2, at=100)
    sessions.touch(3, at=50)
    first, second = sessions.fenced(until=12_000)
    assert [first[1], second[1]] == [3, 2]
    assert first[0] == second[0]


def test_a_new_leader_gives_everyone_a_whole_timeout() -> None:
    """Goal: soft state starts fresh; a fenced broker has no session to lose."""
    sessions = Sessions()
    sessions.tracked.start([a_broker(1), a_broker(2, fenced=True)], Instant(START + 8000), offset=7)
    assert sessions.fenced(until=16_999) == []
    [(when, broker_id, _)] = sessions.fenced(until=20_000)
    assert broker_id == 1
    assert when <= 17_000 + LOOK_MS


def test_the_former_controller_has_lost_a_part_of_its_session() -> None:
    """Goal: a paused node that was controller and leader of partitions is not waited for twice,
    first by the quorum and then by a whole session; if it lives, nothing is lost."""
    sessions = Sessions()
    brokers = [a_broker(1), a_broker(2)]
    lost_ms = TIMEOUT_MS // FORMER_CONTROLLER_SHARE
    sessions.tracked.start(brokers, Instant(START), offset=7, former_controller=2)
    (first, _second) = sessions.fenced(until=2 * TIMEOUT_MS)
    assert first[1] == 2
    assert TIMEOUT_MS - lost_ms <= first[0] <= TIMEOUT_MS - lost_ms + LOOK_MS
    sessions.tracked.start(brokers, Instant(START), offset=7, former_controller=2)
    sessions.touch(2, at=1)
    assert sessions.fenced(until=TIMEOUT_MS - 1) == []


def test_a_controller_that_slept_looks_twice() -> None:
    """Goal: heartbeats that waited in the sockets of a paused controller count."""
    sessions = Sessions()
    late = Instant(START + 60_000)
    assert sessions.tracked.next_stale(late) is None
    sessions.touch(1, 2, at=60_000)
    assert sessions.fenced(until=60_000 + LOOK_MS) == [(60_000 + LOOK_MS, 3, False)]


def test_a_controller_that_is_always_late_still_fences() -> None:
    """Goal: only one look in a row is put off."""
    sessions = Sessions()
    assert sessions.tracked.next_stale(Instant(START + 60_000)) is None
    stale = sessions.tracked.next_stale(Instant(START + 120_000))
    assert stale is not None
    assert stale.silent_ms == 120_000


def test_the_lowest_offset_of_active_brokers() -> None:
    """Goal: a controlled shutdown waits for the slowest, and for no broker when alone."""
    sessions = Sessions()
    sessions.touch(1, at=0, offset=90)
    sessions.touch(2, at=0, offset=70)
    assert sessions.tracked.lowest_active_offset([1, 2]) == 70
    assert sessions.tracked.lowest_active_offset([1, 2, 3]) == -1
    assert sessions.tracked.lowest_active_offset([]) == EVERYONE_CAUGHT_UP


def test_the_shutdown_offset_only_grows() -> None:
    """Goal: the last leadership that moved counts; fencing ends it; a failover restores it."""
    sessions = Sessions()
    sessions.tracked.on_controlled_shutdown(1, 80)
    assert sessions.tracked.shutdown_offset(1) == 80
    sessions.tracked.on_controlled_shutdown(1, 99)
    sessions.tracked.on_controlled_shutdown(1, 98)
    assert sessions.tracked.shutdown_offset(1) == 99
    sessions.tracked.on_fenced(1)
    assert sessions.tracked.shutdown_offset(1) == -1
    sessions.tracked.start([LEAVING], Instant(START), offset=7)
    assert sessions.tracked.shutdown_offset(1) == 7


# Duplicates --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("age", "same_directories", "grace_ms", "blocks"),
    [
        (0, True, GRACE_MS, True),
        (2999, True, GRACE_MS, True),
        (3000, True, GRACE_MS, False),
        (3000, False, GRACE_MS, True),
        (3000, True, 0, True),
        (8999, True, 0, True),
        (9000, True, 0, False),
        (9000, False, GRACE_MS, False),
    ],
)
def test_how_long_a_session_blocks_another_incarnation(
    age: int, same_directories: bool, grace_ms: int, blocks: bool
) -> None:
    """Goal: the whole timeout as in Kafka; a third of it for the owner of the directories."""
    sessions = Sessions(grace_ms)
    sessions.touch(1, at=0)
    assert sessions.tracked.blocks(1, 10, same_directories, Instant(START + age)) is blocks


@pytest.mark.parametrize(("same_directories", "grace_ms"), [(True, 0), (False, GRACE_MS)])
def test_a_broker_without_a_heartbeat_blocks_only_strangers(
    same_directories: bool, grace_ms: int
) -> None:
    """Goal: after a restart of the whole cluster no broker waits for processes that are gone."""
    now = Instant(START + 10)
    assert Sessions(grace_ms).tracked.blocks(1, 10, same_directories, now)
    assert not Sessions().tracked.blocks(1, 10, True, now)


def test_what_ends_a_session_early() -> None:
    """Goal: another epoch, a suspicion, an unknown broker do not block."""
    sessions = Sessions()
    now = Instant(START + 600)
    assert sessions.tracked.blocks(1, 10, False, now)
    assert not sessions.tracked.blocks(1, 11, False, now)
    assert not sessions.tracked.blocks(9, 10, False, now)
    assert sessions.suspect(1, at=600)
    assert not sessions.tracked.blocks(1, 10, False, now)
    sessions.tracked.on_reachable(1, now)
    assert sessions.tracked.blocks(1, 10, False, now)


def test_sessions_follow_registrations() -> None:
    """Goal: the same epoch keeps what is known, another one starts anew, removal forgets."""
    sessions = Sessions()
    sessions.touch(1, at=0, offset=90)
    sessions.tracked.register(1, 10)
    assert sessions.tracked.lowest_active_offset([1]) == 90
    sessions.tracked.register(1, 77)
    assert sessions.tracked.lowest_active_offset([1]) == -1
    sessions.tracked.remove(2)
    sessions.tracked.check([a_broker(1, broker_epoch=77), a_broker(3)])
    with pytest.raises(AssertionError):
        sessions.tracked.check([a_broker(1), a_broker(3)])
    sessions.tracked.stop()
    assert sessions.tracked.deadline() is None


# Suspicions --------------------------------------------------------------------------------


def test_a_suspected_broker_is_fenced_at_once() -> None:
    """Goal: no session timeout when the node saw the process die."""
    sessions = Sessions()
    sessions.touch(1, 2, 3, at=1000)
    assert sessions.suspect(2, at=1500)
    assert sessions.fenced(until=1500) == [(1500, 2, True)]


def test_not_when_it_has_sent_a_heartbeat_since() -> None:
    """Goal: a heartbeat after the suspicion began keeps it alive, until the next one is missing."""
    sessions = Sessions()
    sessions.touch(2, at=1001)
    assert sessions.suspect(2, at=1500)
    assert sessions.fenced(until=4000) == []
    assert sessions.fenced(until=4001) == [(4001, 2, True)]


def test_a_fresh_session_is_not_a_sign_of_life() -> None:
    """Goal: a broker that died with the last controller is fenced by the next one at once."""
    sessions = Sessions()
    assert sessions.suspect(2, at=10)
    assert sessions.fenced(until=10) == [(10, 2, True)]


def test_a_heartbeat_ends_a_suspicion() -> None:
    """Goal: what lives heartbeats, and is not fenced."""
    sessions = Sessions()
    sessions.touch(2, at=1001)
    sessions.suspect(2, at=1500)
    sessions.touch(1, 2, 3, at=3000)
    assert sessions.fenced(until=8000) == []


def test_suspicions_can_be_turned_off() -> None:
    """Goal: a grace period of 0 is Kafka's behaviour."""
    sessions = Sessions(grace_ms=0)
    assert not sessions.suspect(2, at=5000)
    assert not sessions.suspect(9, at=5000)
    assert sessions.fenced(until=8000) == []


def test_wrong_suspicions_wait_longer_each_time() -> None:
    """Goal: a flapping network does not become churn.

    Method: the broker proves alive after each fencing on suspicion; the wait doubles up to the
    session timeout, which is what Kafka would have waited.
    """
    sessions = Sessions()
    waits = []
    for time in range(10_000, 160_000, 15_000):
        sessions.touch(1, 2, 3, at=time)
        assert sessions.suspect(2, at=time + GRACE_MS)
        sessions.touch(1, 3, at=time + 8000)
        [(when, broker_id, _)] = sessions.fenced(until=time + 14_000)
        assert broker_id == 2
        waits.append(when - time)
    assert waits[:5] == [500, 1000, 2000, 4000, 8000]
    assert all(TIMEOUT_MS <= wait <= TIMEOUT_MS + LOOK_MS for wait in waits[5:])


def test_strikes_are_forgotten() -> None:
    """Goal: after ten quiet timeouts a suspicion acts at once again."""
    sessions = Sessions()
    for time in (1000, 12_000, 12_000 + 10 * TIMEOUT_MS + 1):
        sessions.touch(1, 2, 3, at=time)
        sessions.suspect(2, at=time + GRACE_MS)
        fenced = [when for when, broker_id, _ in sessions.fenced(time + 5000) if broker_id == 2]
        assert fenced == [time + (1000 if time == 12_000 else 500)]


def test_a_new_incarnation_has_no_strikes() -> None:
    """Goal: a real crash after a wrong suspicion is noticed at once."""
    sessions = Sessions()
    sessions.touch(2, at=1000)
    sessions.suspect(2, at=1500)
    sessions.fenced(until=1500)
    sessions.touch(2, at=2000)
    sessions.tracked.register(2, 99)
    sessions.touch(1, 2, 3, at=3000)
    sessions.suspect(2, at=3500)
    assert sessions.fenced(until=3500) == [(3500, 2, True)]


def test_strikes_are_bounded() -> None:
    """Goal: after any number of wrong suspicions a dead broker is fenced as Kafka would."""
    sessions = Sessions()
    for time in range(0, 40 * 15_000, 15_000):
        sessions.touch(1, 2, 3, at=time)
        sessions.suspect(2, at=time + GRACE_MS)
        sessions.tracked.on_fenced(2, suspected=True)
    last = 40 * 15_000
    sessions.touch(1, 2, 3, at=last)
    sessions.suspect(2, at=last + GRACE_MS)
    sessions.touch(1, 3, at=last + 5000)
    [(when, broker_id, _)] = sessions.fenced(until=last + 13_000)
    assert broker_id == 2
    assert last + TIMEOUT_MS <= when <= last + TIMEOUT_MS + LOOK_MS


def test_a_late_return_does_not_count_as_a_wrong_suspicion() -> None:
    """Goal: a broker that stays away longer than its session would have lasted earns nothing."""
    sessions = Sessions()
    sessions.suspect(2, at=600)
    assert sessions.fenced(until=600) == [(600, 2, True)]
    sessions.touch(1, 2, 3, at=600 + 2 * TIMEOUT_MS + 1)
    again = 600 + 2 * TIMEOUT_MS + 1 + GRACE_MS
    sessions.suspect(2, at=again)
    assert (again, 2, True) in sessions.fenced(until=again)
