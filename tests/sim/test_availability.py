"""Goal: what stood still is measured from what clients and nodes saw, and nothing else is."""

from tidelog.model import TopicPartition
from tidelog.replication.events.roles import LeadershipBegan
from tidelog.sim.campaign.seeds import run_seed
from tidelog.sim.evidence.history import History, Key, Outcome, Sent
from tidelog.sim.evidence.unavailability import unavailable_ms
from tidelog.sim.report.elections import Elections

_KEY = Key("t", 0)


def _leads(partition: int, epoch: int) -> LeadershipBegan:
    return LeadershipBegan(
        partition=TopicPartition("t", partition),
        leader_epoch=epoch,
        epoch_start=0,
        high_watermark=0,
        isr=(1, 2),
    )


def test_an_election_lasts_from_the_end_of_a_process_to_the_next_leader():
    elections = Elections()
    elections.note(_leads(0, 0), "host1", 10)
    elections.note(_leads(1, 0), "host2", 10)
    elections.process_ended("host1", 100)
    elections.process_ended("host1", 400)
    elections.note(_leads(0, 1), "host2", 750)
    elections.process_ended("host2", 800)
    elections.note(_leads(1, 3), "host2", 1_000)
    assert elections.durations_ms == [650, 200]


def test_a_new_partition_and_a_leader_that_changes_by_will_are_no_elections():
    elections = Elections()
    elections.note(_leads(0, 0), "host1", 10)
    elections.note(_leads(0, 1), "host2", 50)
    elections.process_ended("host1", 60)
    elections.process_ended("host2", 70)
    elections.note(_leads(0, 0), "host3", 90)
    assert elections.durations_ms == []


def _history(*sends: tuple[Outcome, int, int, int]) -> History:
    history = History()
    for number, (outcome, offset, invoked_at, completed_at) in enumerate(sends):
        sent = [Sent(_KEY, offset, f"v{number}")]
        history.send("p", outcome, sent, invoked_at=invoked_at, completed_at=completed_at)
    return history


def test_clients_wait_from_the_first_failure_to_the_next_answer():
    history = _history(
        (Outcome.OK, 0, 0, 5),
        (Outcome.INFO, -1, 10, 300),
        (Outcome.FAIL, -1, 310, 320),
        (Outcome.OK, 1, 330, 340),
        (Outcome.OK, 2, 350, 355),
    )
    assert unavailable_ms(history) == (330,)


def test_what_was_answered_meanwhile_ends_a_wait():
    history = _history(
        (Outcome.OK, 0, 100, 900),
        (Outcome.INFO, -1, 0, 1_000),
        (Outcome.INFO, 1, 1_000, 1_130),
        (Outcome.OK, 2, 1_060, 1_400),
    )
    assert unavailable_ms(history) == (800, 230, 270)


def test_short_waits_are_not_counted():
    assert unavailable_ms(_history((Outcome.OK, 0, 0, 199), (Outcome.OK, 1, 200, 399))) == ()


def test_a_run_with_kills_reports_both():
    outcome = run_seed("cluster", "kills", 3)
    assert outcome.violation is None
    assert outcome.election_ms
    assert outcome.unavailable_ms
