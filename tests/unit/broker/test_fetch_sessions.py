"""KIP-227, rule by rule: the table of (session id, epoch), what an answer may omit, eviction."""

import pytest

from tidelog.broker.fetch_sessions import EVICTION_IDLE_MS, MAX_EPOCH, FetchSession, FetchSessions
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.model import ZERO_TOPIC_ID, EpochEndOffset, TopicId
from tidelog.replication.interest import Interest
from tidelog.wire.fetch import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ForgottenPartition,
)

TOPIC_ID = TopicId(b"t" * 16)
NOW = Instant(1000)


@pytest.fixture
def sessions() -> FetchSessions:
    return FetchSessions(Prng(1))


def wanted(partition: int, fetch_offset: int = 0) -> FetchPartition:
    return FetchPartition("t", TOPIC_ID, partition, -1, fetch_offset, -1, -1, 1 << 20)


def request(
    session_id: int = 0,
    session_epoch: int = 0,
    partitions: tuple[FetchPartition, ...] = (),
    forgotten: tuple[int, ...] = (),
    replica_id: int = -1,
) -> FetchRequest:
    return FetchRequest(
        replica_id,
        -1,
        500,
        1,
        1 << 20,
        0,
        session_id,
        session_epoch,
        list(partitions),
        [ForgottenPartition("t", TOPIC_ID, index) for index in forgotten],
    )


def answer(
    partition: int, records: int = 0, high_watermark: int = 10, **changes
) -> FetchedPartition:
    base = FetchedPartition(
        "t", TOPIC_ID, partition, ErrorCode.NONE, high_watermark, 10, 0, [b"r" * records], records
    )
    return base._replace(**changes)


def response(*answers: FetchedPartition) -> FetchResponse:
    return FetchResponse(0, ErrorCode.NONE, 0, list(answers))


def created(sessions: FetchSessions, *indexes: int, now: int = NOW, **changes) -> FetchSession:
    session, _ = sessions.open(
        request(partitions=tuple(wanted(index) for index in indexes), **changes), True, Instant(now)
    )
    assert session is not None
    return session


def resumed(
    sessions: FetchSessions, session: FetchSession, epoch: int, *partitions: FetchPartition
) -> list[int]:
    """The partitions of an incremental fetch, in serving order."""
    found, everything = sessions.open(request(session.session_id, epoch, partitions), True, NOW)
    assert found is session
    return numbers(everything)


def numbers(interest: Interest) -> list[int]:
    """What is wanted, in serving order."""
    return [each.want.partition for each in interest.in_order(interest.wanted.values())]


def refusal(sessions: FetchSessions, asked: FetchRequest, by_id: bool = True) -> ErrorCode:
    with pytest.raises(ProtocolError) as raised:
        sessions.open(asked, by_id, NOW)
    return raised.value.code


def listed(sessions: FetchSessions, session: FetchSession, *answers: FetchedPartition) -> list[int]:
    """What an incremental response lists."""
    closed = sessions.close(response(*answers), session, full=False)
    assert closed.session_id == session.session_id
    return [entry.partition for entry in closed.partitions]


# The table of requests ---------------------------------------------------------------------


def test_no_session_is_a_plain_fetch(sessions):
    session, everything = sessions.open(request(0, -1, (wanted(0),)), True, NOW)
    assert session is None
    assert numbers(everything) == [0]
    plain = sessions.close(response(answer(0)), session, full=True)
    assert plain.session_id == 0
    assert len(sessions) == 0


def test_zero_zero_makes_a_session_whose_next_epoch_is_one(sessions):
    session = created(sessions, 0, 1)
    assert session.session_id > 0
    full = sessions.close(response(answer(0), answer(1)), session, full=True)
    assert full.session_id == session.session_id
    assert len(full.partitions) == 2
    assert resumed(sessions, session, 1) == [0, 1]


def test_epoch_zero_with_an_id_replaces_the_session(sessions):
    old = created(sessions, 0)
    new, everything = sessions.open(request(old.session_id, 0, (wanted(5),)), True, NOW)
    assert new is not None
    assert numbers(everything) == [5]
    assert len(sessions) == 1
    gone = request(old.session_id, 1)
    assert refusal(sessions, gone) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_the_final_epoch_closes_the_session(sessions):
    session = created(sessions, 0)
    none, everything = sessions.open(request(session.session_id, -1, (wanted(0),)), True, NOW)
    assert none is None
    assert numbers(everything) == [0]
    assert len(sessions) == 0


def test_epochs_grow_by_one_per_request(sessions):
    session = created(sessions, 0)
    for epoch in range(1, 6):
        assert resumed(sessions, session, epoch) == [0]


def test_the_epoch_wraps_to_one(sessions):
    session = created(sessions, 0)
    session.next_epoch = MAX_EPOCH
    resumed(sessions, session, MAX_EPOCH)
    resumed(sessions, session, 1)


def test_an_unknown_id_is_not_found(sessions):
    created(sessions, 0)
    assert refusal(sessions, request(0, 1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert refusal(sessions, request(4711, 1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("epoch", [2, MAX_EPOCH, -2, -(2**31)])
def test_a_wrong_epoch_is_refused_and_drops_the_session(sessions, epoch):
    session = created(sessions, 0)
    code = refusal(sessions, request(session.session_id, epoch))
    assert code is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    code = refusal(sessions, request(session.session_id, 1))
    assert code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_repeated_epoch_is_wrong(sessions):
    session = created(sessions, 0)
    resumed(sessions, session, 1)
    code = refusal(sessions, request(session.session_id, 1))
    assert code is ErrorCode.INVALID_FETCH_SESSION_EPOCH


@pytest.mark.parametrize("by_id", [True, False])
def test_names_and_ids_do_not_mix(sessions, by_id):
    session, _ = sessions.open(request(partitions=(wanted(0),)), by_id, NOW)
    code = refusal(sessions, request(session.session_id, 1), not by_id)
    assert code is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


# What an incremental request changes -------------------------------------------------------


def test_listed_partitions_are_added_or_updated_the_others_stay(sessions):
    session = created(sessions, 0, 1)
    assert resumed(sessions, session, 1, wanted(2), wanted(0, fetch_offset=7)) == [0, 1, 2]
    offsets = [wanted.want.fetch_offset for wanted in session.interest.wanted.values()]
    assert offsets == [7, 0, 0]


def test_forgotten_partitions_leave(sessions):
    session = created(sessions, 0, 1, 2)
    _, left = sessions.open(request(session.session_id, 1, forgotten=(1, 9)), True, NOW)
    assert numbers(left) == [0, 2]


def test_sessions_by_name_distinguish_topics_by_name(sessions):
    other = wanted(0)._replace(topic="u", topic_id=ZERO_TOPIC_ID)
    named = wanted(0)._replace(topic_id=ZERO_TOPIC_ID)
    session, _ = sessions.open(request(partitions=(named, other)), False, NOW)
    _, everything = sessions.open(request(session.session_id, 1), False, NOW)
    assert [each.want.topic for each in everything.wanted.values()] == ["t", "u"]


# What an answer may omit -------------------------------------------------------------------


@pytest.fixture
def settled(sessions) -> FetchSession:
    """A session of partitions 0 and 1 whose state has been sent."""
    session = created(sessions, 0, 1)
    sessions.close(response(answer(0), answer(1)), session, full=True)
    return session


def test_nothing_new_is_not_listed(sessions, settled):
    assert listed(sessions, settled, answer(0), answer(1)) == []


@pytest.mark.parametrize(
    "news",
    [
        {"records": 1},
        {"high_watermark": 11},
        {"high_watermark": 9},
        {"log_start_offset": 3},
        {"diverging_epoch": EpochEndOffset(3, 4)},
        {"preferred_read_replica": 2},
        {"preferred_read_replica": 0},
        {"error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER},
    ],
    ids=str,
)
def test_news_are_listed(sessions, settled, news):
    assert listed(sessions, settled, answer(0), answer(1, **news)) == [1]


@pytest.mark.parametrize("field", ["high_watermark", "log_start_offset"])
def test_a_move_is_reported_once(sessions, settled, field):
    assert listed(sessions, settled, answer(0, **{field: 42})) == [0]
    assert listed(sessions, settled, answer(0, **{field: 42})) == []
    assert listed(sessions, settled, answer(0)) == [0]


def test_an_error_is_reported_each_time_and_so_is_its_end(sessions, settled):
    failed = answer(0, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    assert listed(sessions, settled, failed) == [0]
    assert listed(sessions, settled, failed) == [0]
    assert listed(sessions, settled, answer(0)) == [0]
    assert listed(sessions, settled, answer(0)) == []


def test_a_new_partition_is_listed_even_when_it_is_empty(sessions, settled):
    resumed(sessions, settled, 1, wanted(2))
    assert listed(sessions, settled, answer(0), answer(2, high_watermark=0)) == [2]


def test_an_updated_request_does_not_repeat_old_news(sessions, settled):
    resumed(sessions, settled, 1, wanted(0, fetch_offset=5))
    assert listed(sessions, settled, answer(0)) == []


def test_partitions_with_data_move_to_the_end(sessions):
    session = created(sessions, 0, 1, 2)
    sessions.close(response(answer(0), answer(1), answer(2)), session, full=True)
    listed(sessions, session, answer(0, records=1), answer(1), answer(2))
    assert resumed(sessions, session, 1) == [1, 2, 0]


def test_an_answer_for_a_partition_that_was_forgotten_meanwhile_is_listed(sessions, settled):
    assert listed(sessions, settled, answer(7)) == [7]


# Eviction ----------------------------------------------------------------------------------


def full_cache(*sizes: int, replica_id: int = -1) -> tuple[FetchSessions, list[FetchSession]]:
    sessions = FetchSessions(Prng(2), max_sessions=len(sizes))
    made = [created(sessions, *range(size), replica_id=replica_id) for size in sizes]
    assert len({session.session_id for session in made}) == len(sizes)
    return sessions, made


def opens(sessions: FetchSessions, size: int, now: int = NOW, replica_id: int = -1) -> bool:
    session, everything = sessions.open(
        request(partitions=tuple(wanted(i) for i in range(size)), replica_id=replica_id),
        True,
        Instant(now),
    )
    assert len(everything.wanted) == size
    return session is not None


def lives(sessions: FetchSessions, session: FetchSession, now: int = NOW) -> bool:
    try:
        sessions.open(request(session.session_id, session.next_epoch), True, Instant(now))
    except ProtocolError as error:
        assert error.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        return False
    return True


def test_a_session_of_equal_worth_is_not_evicted():
    sessions, made = full_cache(3, 3)
    assert not opens(sessions, 3)
    assert all(lives(sessions, session) for session in made)


def test_the_smallest_session_gives_way_to_a_larger_one():
    sessions, (large, small) = full_cache(5, 2)
    assert opens(sessions, 3)
    assert lives(sessions, large)
    assert not lives(sessions, small)


def test_a_follower_evicts_a_consumer_of_any_size():
    sessions, (consumer,) = full_cache(100)
    assert opens(sessions, 1, replica_id=2)
    assert not lives(sessions, consumer)


def test_a_consumer_never_evicts_a_follower_that_is_in_use():
    sessions, (follower,) = full_cache(1, replica_id=2)
    assert not opens(sessions, 100)
    assert lives(sessions, follower)


def test_replica_zero_is_a_follower_too():
    sessions, (consumer,) = full_cache(9)
    assert opens(sessions, 1, replica_id=0)
    assert not lives(sessions, consumer)


def test_idle_is_more_than_two_minutes():
    assert EVICTION_IDLE_MS == 120_000


def test_an_idle_session_gives_way_to_any_client():
    sessions, (idle, used) = full_cache(9, 9, replica_id=2)
    later = NOW + EVICTION_IDLE_MS
    assert lives(sessions, used, now=NOW + 1)
    assert not opens(sessions, 1, now=later)
    assert opens(sessions, 1, now=later + 1)
    assert lives(sessions, used, now=later + 1)
    assert not lives(sessions, idle)


def test_replacing_ones_own_session_evicts_no_other():
    sessions, (own,) = full_cache(4)
    session, _ = sessions.open(request(own.session_id, 0, (wanted(0),)), True, NOW)
    assert session is not None
    assert len(sessions) == 1


def test_a_full_fetch_of_nothing_makes_no_session(sessions):
    session, everything = sessions.open(request(), True, NOW)
    assert (session, numbers(everything)) == (None, [])


@pytest.mark.parametrize("seed", range(10))
def test_a_client_that_trusts_its_session_sees_what_a_full_fetch_would_show(seed):
    """Two hundred rounds against a model of the partitions: folding incremental answers into the
    client's view always gives the present state."""
    prng, sessions = Prng(seed), FetchSessions(Prng(seed + 100))
    state = dict.fromkeys(range(6), (0, 0, ErrorCode.NONE))
    session = created(sessions, *state)
    view: dict[int, tuple[int, int, ErrorCode]] = {}
    full = True
    for round_number in range(200):
        for index in state:
            high_watermark, start, code = state[index]
            if prng.chance(1, 4):
                high_watermark += prng.below(3)
            if prng.chance(1, 9):
                start = min(high_watermark, start + 1)
            if prng.chance(1, 9):
                code = prng.choice((ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER))
            state[index] = (high_watermark, start, code)
        if not full:
            found, everything = sessions.open(request(session.session_id, round_number), True, NOW)
            assert found is session
            assert set(numbers(everything)) == set(state)
        answers = []
        for index, (high_watermark, start, code) in state.items():
            failed = code is not ErrorCode.NONE
            answers.append(
                answer(
                    index,
                    high_watermark=-1 if failed else high_watermark,
                    log_start_offset=-1 if failed else start,
                    error_code=code,
                )
            )
        sent = sessions.close(response(*answers), session, full)
        for entry in sent.partitions:
            view[entry.partition] = (entry.high_watermark, entry.log_start_offset, entry.error_code)
        for entry in answers:
            shown = (entry.high_watermark, entry.log_start_offset, entry.error_code)
            assert view[entry.partition] == shown
        full = False


def test_a_new_leader_epoch_is_answered_even_when_nothing_moved(sessions):
    """A follower takes no answer to its former term, so it may not know the state in it."""
    session = created(sessions, 0)
    sessions.close(response(answer(0)), session, full=True)
    resumed(sessions, session, 1, wanted(0))
    assert listed(sessions, session, answer(0)) == []
    resumed(sessions, session, 2, wanted(0)._replace(current_leader_epoch=3))
    assert listed(sessions, session, answer(0)) == [0]


def test_a_node_that_remembers_no_sessions_answers_all_the_same():
    """`max.incremental.fetch.session.cache.slots` may be 0; the first fetch ended the node."""
    sessions, _ = full_cache()
    assert not opens(sessions, 3)
    assert len(sessions) == 0
