"""Stories of idempotent producers: what a leader remembers of them, and what it may have forgotten.

Source: KIP-98; KAFKA-6003, 6683, 7190, 12153, 14920; Redpanda 3038, 3039, 5356.
"""

from tidelog.errors import ErrorCode
from tidelog.sim.regressions.scene import Scene
from tidelog.sim.replicas.requests import Producer
from tidelog.sim.replicas.stage import Stage


def r25_state_is_cut_with_the_log(scene: Scene) -> None:
    """What was cut is not remembered as appended.

    Origin: KAFKA-12153, KAFKA-6683
    Story: the old leader has a batch that nobody else has; it follows, cuts it, and leads again;
    the producer tries the same batch again.
    Must: the batch is appended; it is no duplicate of what was cut.
    """
    stage = scene.stage(1, 2)
    stage.topic(1, 2)
    stage.send(1, "a", producer=Producer(7, 0, 0))
    stage.run(150)
    stage.cut |= {(1, 2), (2, 1)}
    stage.send(1, "b", acks=1, producer=Producer(7, 0, 1))
    stage.feed.change("orders", leader=2, isr=(2,))
    stage.run(10)
    stage.cut.clear()
    stage.run(300)
    scene.must(stage.values(1) == ["a"], "Story", f"b1 has {stage.values(1)}")
    stage.feed.change("orders", leader=1, isr=(1, 2))
    stage.run(150)
    name = stage.send(1, "b", producer=Producer(7, 0, 1))
    stage.run(200)
    scene.must(stage.code_of(name) is ErrorCode.NONE, "SequenceContinuity", "b was refused")
    scene.must(stage.values(1) == ["a", "b"], "NothingLost", f"b1 has {stage.values(1)}")
    stage.finish()


def r26_unknown_producers_are_welcome(scene: Scene) -> None:
    """A replica that knows nothing of a producer takes its batches, whatever their sequence.

    Origin: KAFKA-6003, KAFKA-7190, KAFKA-14920
    Story: the records of a producer are deleted; a follower that never had them starts above them,
    copies a later batch of it, and is elected; another producer of which nothing is left goes on
    there as well.
    Must: the follower takes what its leader took, and as leader goes on with both producers.
    """
    stage = scene.stage(1, 2)
    stage.topic(1, 2, segment_bytes="200")
    stage.cut |= {(1, 2), (2, 1)}
    stage.feed.change("orders", isr=(1,))
    stage.run(1_600)
    for sequence in range(4):
        stage.send(1, f"a{sequence}", producer=Producer(7, 0, sequence))
        stage.send(1, f"b{sequence}", producer=Producer(8, 0, sequence))
    stage.run(10)
    stage.log_of(1).maybe_raise_log_start_offset(8)
    stage.send(1, "a4", producer=Producer(7, 0, 4))
    stage.cut.clear()
    stage.run(800)
    scene.must(stage.log_of(2).log_start_offset == 8, "Story", "broker 2 has the old records")
    stage.kill(1)
    stage.feed.change("orders", leader=2, isr=(2,))
    stage.run(10)
    names = [
        stage.send(2, "a5", producer=Producer(7, 0, 5)),
        stage.send(2, "b4", producer=Producer(8, 0, 4)),
    ]
    stage.run(50)
    codes = [stage.code_of(name) for name in names]
    scene.must(codes == [ErrorCode.NONE] * 2, "SequenceContinuity", f"{codes}")
    stage.finish()


def r27_retries_after_a_crash(scene: Scene) -> None:
    """A retry of any of the last five batches is answered with the offset of the first time.

    Origin: Redpanda 3038, 3039, 5356
    Story: five batches are under way when the leader dies; the producer sends them again to its
    successor; the successor stops and comes back, and gets them again; then the oldest segment
    is deleted, and it gets the last one again.
    Must: each is appended once, and each answer names the original offset.
    """
    stage = scene.stage(1, 2)
    stage.topic(1, 2, segment_bytes="200")
    for sequence in range(5):
        stage.send(1, f"v{sequence}", producer=Producer(7, 0, sequence))
        stage.run(30)
    stage.run(200)
    stage.kill(1)
    stage.feed.change("orders", leader=2, isr=(2,))
    stage.run(10)
    _retry_all(scene, stage)
    stage.stop(2)
    stage.start(2)
    stage.run(20)
    stage.feed.change("orders", leader=2, isr=(2,))
    stage.run(20)
    _retry_all(scene, stage)
    stage.log_of(2).maybe_raise_log_start_offset(4)
    stage.run(10)
    name = stage.send(2, "v4", producer=Producer(7, 0, 4))
    stage.run(10)
    answer = stage.answer_to(name)
    scene.must(answer is not None and answer.base_offset == 4, "NoDuplicates", f"{answer}")
    stage.finish()


def _retry_all(scene: Scene, stage: Stage) -> None:
    for sequence in range(5):
        name = stage.send(2, f"v{sequence}", producer=Producer(7, 0, sequence))
        stage.run(5)
        answer = stage.answer_to(name)
        told = None if answer is None else (answer.error_code, answer.base_offset)
        scene.must(told == (ErrorCode.NONE, sequence), "NoDuplicates", f"v{sequence}: {told}")
    scene.must(stage.log_of(2).log_end_offset == 5, "NoDuplicates", f"{stage.values(2)}")
