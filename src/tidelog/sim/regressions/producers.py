"""Scenarios of idempotent producers: what a leader remembers of them, and what it may have
forgotten.

Source: KIP-98; KAFKA-6003, 6683, 7190, 12153, 14920; Redpanda 3038, 3039, 5356.
"""

from tidelog.errors import ErrorCode
from tidelog.sim.regressions.testbed import Scene, Testbed
from tidelog.sim.replicas.cluster import Producer


def r25_state_is_cut_with_the_log(testbed: Testbed) -> None:
    """What was cut is not remembered as appended.

    Origin: KAFKA-12153, KAFKA-6683
    Case: the old leader has a batch that no other has; it follows, cuts it, and leads again;
    the producer tries the same batch again.
    Must: the batch is appended; it is not a duplicate of what was cut.
    """
    cluster = testbed.topic(1, 2)
    cluster.send(1, "a", producer=Producer(7, 0, 0), then_ms=150)
    cluster.part(1, 2)
    cluster.send(1, "b", acks=1, producer=Producer(7, 0, 1))
    cluster.elect(2, then_ms=10)
    cluster.reunite(then_ms=300)
    cluster.must_hold(1, "a")
    cluster.elect(1, 1, 2, then_ms=150)
    name = cluster.send(1, "b", producer=Producer(7, 0, 1), then_ms=200)
    testbed.must(cluster.code_of(name) is ErrorCode.NONE, "SequenceContinuity", "b was refused")
    cluster.must_hold(1, "a", "b", name="NothingLost")


def r26_unknown_producers_are_welcome(testbed: Testbed) -> None:
    """A replica that knows nothing of a producer takes its batches, whatever their sequence.

    Origin: KAFKA-6003, KAFKA-7190, KAFKA-14920
    Case: the records of a producer are deleted; a follower that never had them starts above them,
    copies a later batch of it, and is elected; another producer of which nothing is left goes on
    there as well.
    Must: the follower takes what its leader took, and as leader goes on with both producers.
    """
    cluster = testbed.topic(1, 2, segment_bytes="200")
    cluster.part(1, 2)
    cluster.set_isr(1, then_ms=1_600)
    for sequence in range(4):
        cluster.send(1, f"a{sequence}", producer=Producer(7, 0, sequence))
        cluster.send(1, f"b{sequence}", producer=Producer(8, 0, sequence))
    cluster.run(10)
    cluster.log_of(1).maybe_raise_log_start_offset(8)
    cluster.send(1, "a4", producer=Producer(7, 0, 4))
    cluster.reunite(then_ms=800)
    testbed.must(cluster.log_of(2).log_start_offset == 8, "Setup", "broker 2 has the old records")
    cluster.kill(1)
    cluster.elect(2, then_ms=10)
    names = [
        cluster.send(2, "a5", producer=Producer(7, 0, 5)),
        cluster.send(2, "b4", producer=Producer(8, 0, 4)),
    ]
    cluster.run(50)
    codes = [cluster.code_of(name) for name in names]
    testbed.must(codes == [ErrorCode.NONE] * 2, "SequenceContinuity", f"{codes}")


def r27_retries_after_a_crash(testbed: Testbed) -> None:
    """A retry of any of the last five batches is answered with the offset of the first time.

    Origin: Redpanda 3038, 3039, 5356
    Case: five batches are under way when the leader dies; the producer sends them again to its
    successor; the successor stops and comes back, and gets them again; then the oldest segment
    is deleted, and it gets the last one again.
    Must: each is appended once, and each answer names the original offset.
    """
    cluster = testbed.topic(1, 2, segment_bytes="200")
    for sequence in range(5):
        cluster.send(1, f"v{sequence}", producer=Producer(7, 0, sequence), then_ms=30)
    cluster.run(200)
    cluster.kill(1)
    cluster.elect(2, then_ms=10)
    _retry_all(testbed, cluster)
    cluster.stop(2)
    cluster.start(2, then_ms=20)
    cluster.elect(2, then_ms=20)
    _retry_all(testbed, cluster)
    cluster.log_of(2).maybe_raise_log_start_offset(4)
    cluster.run(10)
    name = cluster.send(2, "v4", producer=Producer(7, 0, 4), then_ms=10)
    answer = cluster.answer_to(name)
    testbed.must(answer is not None and answer.base_offset == 4, "NoDuplicates", f"{answer}")


def _retry_all(testbed: Testbed, cluster: Scene) -> None:
    for sequence in range(5):
        name = cluster.send(2, f"v{sequence}", producer=Producer(7, 0, sequence), then_ms=5)
        answer = cluster.answer_to(name)
        received = None if answer is None else (answer.error_code, answer.base_offset)
        testbed.must(
            received == (ErrorCode.NONE, sequence), "NoDuplicates", f"v{sequence}: {received}"
        )
    testbed.must(cluster.log_of(2).log_end_offset == 5, "NoDuplicates", f"{cluster.values(2)}")
