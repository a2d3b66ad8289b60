"""Each anomaly: a history that has it, and the nearest one that has not."""

import pytest

from tests.history.notation import K, L, Notation
from tidelog.env.prng import Prng
from tidelog.sim.checkers.log_history import cycles
from tidelog.sim.checkers.log_history.checker import SUBSCRIBED, WITHOUT_ISOLATION, check_history
from tidelog.sim.evidence.history import Outcome


def names(history: Notation) -> set[str]:
    """Everything that is found, legal or not."""
    report = check_history(history.ops)
    return {anomaly.name for anomaly in (*report.anomalies, *report.allowed)}


def abc() -> Notation:
    """Three values, acknowledged one after the other."""
    return Notation().send((K, 0, "a")).send((K, 1, "b")).send((K, 2, "c"))


def test_a_log_that_is_one_has_no_anomalies():
    history = abc().poll((K, 0, "a"), (K, 1, "b")).poll((K, 2, "c"))
    assert names(history) == set()


# What is where --------------------------------------------------------------------------------


def test_inconsistent_offsets_between_two_polls():
    history = abc().poll((K, 0, "a"), who="c1").poll((K, 0, "b"), who="c2")
    assert "inconsistent-offsets" in names(history)


def test_inconsistent_offsets_between_an_acknowledgement_and_a_poll():
    history = Notation().send((K, 5, "a")).send((K, 6, "b")).poll((K, 5, "b"))
    assert "inconsistent-offsets" in names(history)


def test_inconsistent_offsets_seen_by_a_poll_of_an_unknown_outcome():
    history = abc().poll((K, 0, "b"), outcome=Outcome.INFO)
    assert "inconsistent-offsets" in names(history)


def test_an_unacknowledged_offset_of_an_invisible_write_says_nothing():
    history = Notation().send((K, 0, "a"), outcome=Outcome.INFO).send((K, 0, "b")).poll((K, 0, "b"))
    assert names(history) == set()


def test_the_same_offset_in_two_partitions_is_fine():
    history = Notation().send((K, 0, "a")).send((L, 0, "b")).poll((K, 0, "a"), (L, 0, "b"))
    assert names(history) == set()


def test_duplicate():
    history = abc().poll((K, 0, "a"), (K, 1, "b"), (K, 2, "c"), (K, 3, "a"))
    assert "duplicate" in names(history)


def test_reading_twice_is_not_a_duplicate():
    history = abc().poll((K, 0, "a"), (K, 1, "b"), (K, 2, "c"), who="c1")
    history.poll((K, 0, "a"), (K, 1, "b"), (K, 2, "c"), who="c2")
    assert names(history) == set()


def test_a_value_that_no_client_wrote():
    assert "unknown-value" in names(Notation().poll((K, 0, "x")))


def test_lost_write():
    history = abc().poll((K, 0, "a")).poll((K, 2, "c"), who="c2")
    assert "lost-write" in names(history)


def test_a_write_above_everything_read_is_not_lost_but_unseen():
    history = abc().poll((K, 0, "a"), (K, 1, "b"))
    assert names(history) == {"unseen"}


def test_a_lost_write_of_unknown_outcome_counts_when_its_transaction_was_seen():
    seen = Notation().send((K, 0, "a"), (L, 0, "m"), outcome=Outcome.INFO).send((K, 1, "b"))
    seen.poll((L, 0, "m")).poll((K, 1, "b"), who="c2")
    assert "lost-write" in names(seen)
    unseen = Notation().send((K, 0, "a"), (L, 0, "m"), outcome=Outcome.INFO).send((K, 1, "b"))
    unseen.poll((K, 1, "b"), who="c2")
    assert names(unseen) == set()


def test_a_write_that_failed_cannot_be_lost():
    history = Notation().send((K, 0, "a"), outcome=Outcome.FAIL).send((K, 1, "b")).poll((K, 1, "b"))
    assert names(history) == set()


def test_unseen():
    assert names(abc()) == {"unseen"}
    assert names(Notation().send((K, 0, "a"), outcome=Outcome.INFO)) == set()


def test_aborted_read():
    history = Notation().send((K, 0, "a"), outcome=Outcome.FAIL).poll((K, 0, "a"))
    assert names(history) == {"G1a"}


def test_reading_a_write_of_unknown_outcome_is_fine():
    history = Notation().send((K, 0, "a"), outcome=Outcome.INFO).poll((K, 0, "a"))
    assert names(history) == set()


def test_precommitted_read():
    history = Notation().txn([(K, 0, "a")], [(K, 0, "a")])
    assert "precommitted-read" in names(history)
    history = Notation().txn([(K, 0, "a")], []).txn([(K, 1, "b")], [(K, 0, "a")]).poll((K, 1, "b"))
    assert names(history) == set()


# Order within a process ----------------------------------------------------------------------


def test_skip_inside_a_poll():
    history = abc().poll((K, 0, "a"), (K, 2, "c")).poll((K, 1, "b"), who="c2")
    assert "int-poll-skip" in names(history)


def test_a_hole_in_the_offsets_is_not_a_skip():
    history = Notation().send((K, 0, "a")).send((K, 9, "b")).poll((K, 0, "a"), (K, 9, "b"))
    assert names(history) == set()


def test_step_back_inside_a_poll():
    history = abc().poll((K, 1, "b"), (K, 0, "a")).poll((K, 2, "c"), who="c2")
    assert "int-nonmonotonic-poll" in names(history)


def test_order_inside_a_poll_says_nothing_of_a_key_that_changed_hands():
    history = abc().poll((K, 0, "a"), (K, 2, "c"), rebalanced=frozenset((K,)))
    history.poll((K, 1, "b"), who="c2")
    assert names(history) == set()


def test_skip_between_polls():
    history = abc().poll((K, 0, "a")).poll((K, 2, "c")).poll((K, 1, "b"), who="c2")
    assert "poll-skip" in names(history)


def test_step_back_between_polls():
    history = abc().poll((K, 0, "a"), (K, 1, "b")).poll((K, 0, "a")).poll((K, 2, "c"), who="c2")
    assert "nonmonotonic-poll" in names(history)


def test_standing_still_between_polls_is_a_step_back():
    history = abc().poll((K, 0, "a")).poll((K, 0, "a")).poll((K, 1, "b"), (K, 2, "c"), who="c2")
    assert "nonmonotonic-poll" in names(history)


@pytest.mark.parametrize("sought", [True, False])
def test_an_assignment_that_moves_positions_ends_the_memory(sought):
    history = abc().poll((K, 0, "a"), (K, 1, "b"), (K, 2, "c"))
    history.assign(K, sought=sought).poll((K, 0, "a"))
    assert ("nonmonotonic-poll" in names(history)) != sought


def test_an_assignment_forgets_what_it_does_not_keep():
    history = abc().poll((K, 0, "a"), (K, 1, "b"), (K, 2, "c")).assign(L).poll((K, 0, "a"))
    assert names(history) == set()


def test_only_an_answered_poll_advances_the_memory():
    history = abc().poll((K, 0, "a")).poll((K, 1, "b"), outcome=Outcome.INFO)
    history.poll((K, 1, "b"), (K, 2, "c"))
    assert names(history) == set()


def test_steps_of_subscribers_are_allowed():
    history = abc().poll((K, 0, "a")).poll((K, 2, "c")).poll((K, 1, "b"), who="c2")
    assert not check_history(history.ops, WITHOUT_ISOLATION | SUBSCRIBED).anomalies


def test_sends_of_one_operation_out_of_order():
    history = Notation().send((K, 1, "a"), (K, 0, "b")).poll((K, 0, "b"), (K, 1, "a"))
    assert "int-nonmonotonic-send" in names(history)


def test_others_between_the_sends_of_one_operation_are_seen_and_allowed():
    history = (
        Notation().send((K, 0, "a"), (K, 2, "c"), at=(1, 9)).send((K, 1, "b"), who="q", at=(2, 8))
    )
    history.poll((K, 0, "a"), (K, 1, "b"), (K, 2, "c"), at=(10, 11))
    assert "int-send-skip" in names(history)
    assert not check_history(history.ops).anomalies


def test_sends_of_one_process_out_of_order():
    history = Notation().send((K, 1, "a")).send((K, 0, "b")).poll((K, 0, "b"), (K, 1, "a"))
    assert "nonmonotonic-send" in names(history)


def test_a_send_without_an_answer_may_land_later():
    history = Notation().send((K, -1, "a"), outcome=Outcome.INFO).send((K, 0, "b"))
    history.poll((K, 0, "b"), (K, 1, "a"))
    assert names(history) == set()


def test_sends_of_two_processes_have_no_order():
    history = Notation().send((K, 1, "a"), at=(1, 9)).send((K, 0, "b"), who="q", at=(2, 8))
    history.poll((K, 0, "b"), (K, 1, "a"), at=(10, 11))
    assert names(history) == set()


# Time and cycles ------------------------------------------------------------------------------


def test_an_append_that_contradicts_real_time():
    history = Notation().send((K, 1, "a"), at=(1, 2)).send((K, 0, "b"), who="q", at=(3, 4))
    history.poll((K, 0, "b"), (K, 1, "a"))
    assert {"realtime-append", "G0-realtime"} <= names(history)


def test_appends_at_the_same_time_may_have_any_order():
    history = Notation().send((K, 1, "a"), at=(1, 4)).send((K, 0, "b"), who="q", at=(3, 5))
    history.poll((K, 0, "b"), (K, 1, "a"))
    assert names(history) == set()


def test_an_append_without_an_answer_never_ended():
    history = Notation().send((K, 1, "a"), outcome=Outcome.INFO, at=(1, 2))
    history.send((K, 0, "b"), who="q", at=(3, 4)).poll((K, 0, "b"), (K, 1, "a"))
    assert names(history) == set()


def test_g0_is_found_and_allowed_without_isolation():
    history = Notation().txn([(K, 0, "a1"), (L, 1, "a2")], [], who="x", at=(1, 9))
    history.txn([(K, 1, "b1"), (L, 0, "b2")], [], who="y", at=(2, 8))
    history.poll((K, 0, "a1"), (K, 1, "b1"), (L, 0, "b2"), (L, 1, "a2"), at=(10, 11))
    assert "G0" in names(history)
    assert not check_history(history.ops).anomalies
    assert check_history(history.ops, frozenset()).names == {"G0"}


def test_two_operations_that_saw_each_other():
    history = Notation().txn([(K, 0, "a")], [(L, 0, "b")], who="x", at=(1, 9))
    history.txn([(L, 0, "b")], [(K, 0, "a")], who="y", at=(2, 8))
    assert check_history(history.ops).names == {"G1c-wr"}


def test_one_operation_that_saw_another_is_not_a_cycle():
    history = Notation().txn([(K, 0, "a")], [], who="x", at=(1, 9))
    history.txn([(L, 0, "b")], [(K, 0, "a")], who="y", at=(2, 8)).poll((L, 0, "b"), at=(10, 11))
    assert names(history) == set()


def test_g1c_of_writes_and_reads():
    history = Notation().txn([(K, 0, "a"), (L, 1, "a2")], [], who="x", at=(1, 9))
    history.txn([(L, 0, "b")], [(K, 0, "a")], who="y", at=(2, 8))
    history.poll((L, 0, "b"), (L, 1, "a2"), at=(10, 11))
    assert "G1c" in names(history)


def test_g0_with_the_order_of_a_process():
    history = (
        Notation().send((K, 1, "a"), at=(1, 2)).send((K, 0, "b"), outcome=Outcome.INFO, at=(5, 9))
    )
    history.poll((K, 0, "b"), (K, 1, "a"), at=(10, 11))
    assert "G0-process" in names(history)


def test_g1c_with_the_order_of_a_process():
    """q answers to what p writes later; p has read the answer before."""
    history = Notation().poll((L, 0, "b"), who="p", at=(1, 2)).send((K, 0, "a"), who="p", at=(3, 4))
    history.txn([(L, 0, "b")], [(K, 0, "a")], who="q", at=(1, 9))
    assert names(history) == {"G1c-process"}
    assert not check_history(history.ops).anomalies


def test_a_read_before_its_write_is_a_cycle_with_time():
    history = Notation().poll((K, 0, "a"), at=(1, 2)).send((K, 0, "a"), at=(3, 4))
    assert "G1c-realtime" in names(history)


def test_a_read_during_its_write_is_fine():
    history = Notation().send((K, 0, "a"), at=(1, 4)).poll((K, 0, "a"), at=(2, 3))
    assert names(history) == set()


def test_an_order_is_found_exactly_where_there_is_no_cycle():
    """The short cut against the components, on small random graphs."""
    prng, ordered = Prng(1), 0
    for _ in range(400):
        size = prng.between(2, 7)
        graph: cycles.Graph = {node: {} for node in range(size)}
        for _ in range(prng.between(0, 2 * size)):
            first, second = prng.below(size), prng.below(size)
            if first != second:
                graph[first][second] = cycles.Edge(prng.below(4))
        is_ordered = not cycles._components(graph, lambda _: True)
        assert cycles._is_acyclic(graph) == is_ordered, graph
        ordered += is_ordered
    assert 50 < ordered < 350


# Reported, not judged -----------------------------------------------------------------------------


def test_consumptions_are_counted():
    history = (
        abc().poll((K, 0, "a"), (K, 1, "b"), who="c1").poll((K, 0, "a"), (K, 1, "b"), who="c2")
    )
    history.poll((K, 2, "c"), who="c1")
    assert check_history(history.ops).consume_counts == {1: 1, 2: 2}


def test_staleness_is_measured_from_the_acknowledgement_that_a_poll_missed():
    history = Notation().send((K, 0, "a"), at=(1, 2)).send((K, 1, "b"), at=(3, 10))
    history.poll((K, 0, "a"), at=(50, 51)).poll((K, 1, "b"), at=(60, 61))
    assert check_history(history.ops).realtime_lag_ms == 40


def test_a_fresh_poll_is_not_stale():
    history = Notation().send((K, 0, "a"), at=(1, 2)).poll((K, 0, "a"), at=(3, 4))
    assert check_history(history.ops).realtime_lag_ms == 0
