"""Large topics: placed in slices, appended whole, and by what holds at the end."""

from tests.unit.controller.harness import Stage, a_stage
from tidelog.controller.messages import BrokerHeartbeat
from tidelog.controller.topic_messages import CreateTopics, NewTopic
from tidelog.errors import ErrorCode
from tidelog.limits import MAX_PARTITIONS_PLACED_PER_TURN


def create_many(stage: Stage, name: str = "new") -> int:
    """A request whose partitions take three turns to place; records in the log so far."""
    stage.controller.wake(stage.now)
    stage.answers.clear()
    known = len(stage.log.records)
    wish = NewTopic(name, 3 * MAX_PARTITIONS_PLACED_PER_TURN - 10, 3)
    stage.send(CreateTopics((wish,)), name)
    return known


def test_a_large_topic_is_placed_in_slices_and_appended_whole() -> None:
    """Goal: nothing of it is in the log before all of it is."""
    stage = a_stage(1, 2, 3)
    known = create_many(stage)
    for _ in range(2):
        assert len(stage.log.records) == known
        stage.controller.wake(stage.now)
    assert stage.log.batch_sizes[-1] == 3 * MAX_PARTITIONS_PLACED_PER_TURN - 9
    stage.settle()
    [(_, answer)] = stage.answers
    assert answer.topics[0].error_code is ErrorCode.NONE
    partitions = stage.topic("new").partitions
    assert list(partitions) == list(range(3 * MAX_PARTITIONS_PLACED_PER_TURN - 10))


def test_a_topic_is_placed_anew_when_a_broker_goes_meanwhile() -> None:
    """Goal: no partition begins with a leader that is fenced by then."""
    stage = a_stage(1, 2, 3)
    create_many(stage)
    stage.send(BrokerHeartbeat(1, stage.epochs[1], stage.controller.image.offset, True, False))
    stage.settle()
    assert stage.broker(1).fenced
    partitions = stage.topic("new").partitions.values()
    assert all(1 not in one.isr and one.leader != 1 for one in partitions)


def test_the_first_of_two_equal_creations_succeeds() -> None:
    """Goal: a request that is overtaken while it is placed is refused."""
    stage = a_stage(1, 2, 3)
    create_many(stage)
    stage.send(CreateTopics((NewTopic("new", 1, 3),)), "small")
    stage.settle()
    codes = [(name, answer.topics[0].error_code) for name, answer in stage.answers]
    assert sorted(codes) == [("new", ErrorCode.TOPIC_ALREADY_EXISTS), ("small", ErrorCode.NONE)]
    assert len(stage.topic("new").partitions) == 1


def test_a_topic_that_goes_on_being_disturbed_is_made_in_one_turn() -> None:
    """Goal: brokers that come and go cannot keep a request waiting for ever."""
    stage = a_stage(1, 2, 3)
    create_many(stage)
    turns = 0
    while not stage.controller.image.topic("new"):
        seen = stage.controller.image.offset
        fenced = stage.broker(1).fenced
        stage.send(BrokerHeartbeat(1, stage.epochs[1], seen, not fenced, False))
        stage.controller.wake(stage.now)
        for batch in stage.log.commit():
            stage.controller.on_committed(batch, stage.now)
            stage.standby.on_committed(batch, stage.now)
        turns += 1
        assert turns < 20
    stage.settle()
    assert dict(stage.answers)["new"].topics[0].error_code is ErrorCode.NONE
