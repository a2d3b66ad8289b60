"""The follower's end of a fetch session, against the broker's real end."""

from tidelog.broker.fetch_sessions import FetchSessions
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.limits import MAX_PARTITIONS_ADDED_PER_FETCH
from tidelog.replication.fetch_session import FULL, FollowerSession
from tidelog.sim.replicas.feed import topic_id_of
from tidelog.wire.fetch import FetchPartition, FetchRequest

NOW = Instant(0)


def entry(number: int, offset: int = 0) -> FetchPartition:
    """One partition of its own topic."""
    return FetchPartition(f"t{number}", topic_id_of(number), 0, 0, offset, -1, 0, 1 << 20)


def request(session: FollowerSession) -> FetchRequest:
    """The next request."""
    listed, forgotten = session.take_request()
    return FetchRequest(
        2, 1, 500, 1, 1 << 20, 0, session.session_id, session.epoch, listed, forgotten
    )


def test_first_everything_then_what_changed() -> None:
    """A session begins full and goes on with differences."""
    session = FollowerSession()
    session.put(entry(1))
    session.put(entry(2))
    first = request(session)
    assert (first.session_id, first.session_epoch) == (0, FULL)
    assert first.partitions == [entry(1), entry(2)]
    session.on_success(77)
    session.put(entry(2, offset=5))
    session.put(entry(3))
    session.drop("t1", (topic_id_of(1), 0))
    second = request(session)
    assert (second.session_id, second.session_epoch) == (77, 1)
    assert second.partitions == [entry(2, offset=5), entry(3)]
    assert [forgotten.topic for forgotten in second.forgotten] == ["t1"]
    session.on_success(77)
    third = request(session)
    assert (third.session_epoch, third.partitions, third.forgotten) == (2, [], [])


def test_what_came_and_went_between_two_requests_is_not_mentioned() -> None:
    """The leader never received it."""
    session = FollowerSession()
    session.put(entry(1))
    request(session)
    session.on_success(77)
    session.put(entry(2))
    session.drop("t2", (topic_id_of(2), 0))
    session.drop("t9", (topic_id_of(9), 0))
    second = request(session)
    assert (second.partitions, second.forgotten) == ([], [])


def test_no_session_means_everything_again() -> None:
    """A leader without space answers id 0."""
    session = FollowerSession()
    session.put(entry(1))
    request(session)
    session.on_success(0)
    again = request(session)
    assert (again.session_id, again.session_epoch, again.partitions) == (0, FULL, [entry(1)])


def test_errors_start_over() -> None:
    """An unknown session is forgotten, any other one is closed by the next request."""
    session = FollowerSession()
    session.put(entry(1))
    for finish, expected in (
        (lambda: session.on_error(ErrorCode.INVALID_FETCH_SESSION_EPOCH), 77),
        (lambda: session.on_error(ErrorCode.FETCH_SESSION_ID_NOT_FOUND), 0),
        (session.on_failure, 77),
    ):
        request(session)
        session.on_success(77)
        request(session)
        finish()
        again = request(session)
        assert (again.session_id, again.session_epoch) == (expected, FULL)
        assert again.partitions == [entry(1)]


def test_a_large_session_is_built_step_by_step() -> None:
    """But what the leader remembers with another offset is listed at once."""
    session, many = FollowerSession(), 2 * MAX_PARTITIONS_ADDED_PER_FETCH + 10
    for number in range(many):
        session.put(entry(number))
    first = request(session)
    assert (len(first.partitions), session.has_more) == (MAX_PARTITIONS_ADDED_PER_FETCH, True)
    session.on_success(77)
    for number in range(many):
        session.put(entry(number, offset=5))
    second = request(session)
    listed = [wanted.topic for wanted in second.partitions]
    assert listed[: len(first.partitions)] == [wanted.topic for wanted in first.partitions]
    assert len(listed) == many - 10
    session.on_success(77)
    session.check()
    third = request(session)
    assert (len(third.partitions), session.has_more) == (10, False)
    session.on_failure()
    again = request(session)
    assert (again.session_epoch, len(again.partitions)) == (FULL, MAX_PARTITIONS_ADDED_PER_FETCH)
    session.check()


def test_without_a_session_everything_is_listed() -> None:
    """Until a leader grants one: nothing of a request is remembered."""
    session, many = FollowerSession(), 2 * MAX_PARTITIONS_ADDED_PER_FETCH
    for number in range(many):
        session.put(entry(number))
    request(session)
    for granted, listed in ((0, many), (0, many), (77, 1)):
        session.on_success(granted)
        session.put(entry(0, offset=granted))
        assert len(request(session).partitions) == listed
        session.check()


def test_epochs_wrap_to_one() -> None:
    """0 would mean a new session."""
    session = FollowerSession()
    session.put(entry(1))
    request(session)
    session.on_success(77)
    session.epoch = 2**31 - 1
    request(session)
    session.on_success(77)
    assert session.epoch == 1


def test_the_leader_always_knows_what_is_wanted() -> None:
    """Random wishes, lost requests and lost answers: whenever an answer arrives, the leader
    remembers exactly what was wanted when the request was built."""
    prng = Prng(1)
    session, leader = FollowerSession(), FetchSessions(Prng(2))
    wanted: dict[int, FetchPartition] = {}
    answered = 0
    for _ in range(2000):
        for _ in range(prng.below(4)):
            number = prng.below(12)
            if prng.chance(2, 3):
                wanted[number] = entry(number, offset=prng.below(50))
                session.put(wanted[number])
            elif wanted.pop(number, None) is not None:
                session.drop(f"t{number}", (topic_id_of(number), 0))
            session.check()
        sent = request(session)
        if prng.chance(1, 20):
            session.on_failure()
            continue
        try:
            opened, interest = leader.open(sent, True, NOW)
        except ProtocolError as error:
            session.on_error(error.code)
            continue
        if prng.chance(1, 20):
            session.on_failure()
            continue
        assert sorted(each.want for each in interest.wanted.values()) == sorted(wanted.values())
        answered += 1
        session.on_success(0 if opened is None else opened.session_id)
        session.check()
    assert answered > 1500
