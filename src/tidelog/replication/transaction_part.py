"""What coordinators ask of the partitions of a transaction: markers, verification, producers.

The markers of a transaction coordinator go through the path of produces (`produce_path.py`), and
the questions of leaders to it through `verification.py`.
"""

from collections.abc import Callable, Sequence

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.replication import messages
from tidelog.replication.messages import Token
from tidelog.replication.offset_queries import producers_of
from tidelog.replication.produce_path import ProducePath
from tidelog.replication.shared import Env
from tidelog.replication.verification import Release, Verdict, Verification


class TransactionPart:
    """The partitions of this node, as coordinators see them."""

    __slots__ = ("_env", "_produce", "_stir", "_verification", "wall_offset_ms")

    def __init__(
        self, env: Env, produce: ProducePath, verification: Verification, stir: Callable[[], None]
    ) -> None:
        self._env = env
        self._produce = produce
        self._verification = verification
        # To be called with every input: the replicas look at what it changed.
        self._stir = stir
        # Wall time in ms minus monotonic time in ms; set by the node.
        self.wall_offset_ms = 0

    def write_markers(
        self,
        markers: Sequence[messages.MarkerToWrite],
        reply_to: messages.ReplyTo,
        now: Instant,
        *,
        timeout_ms: int,
    ) -> None:
        """Ends transactions; the `Reply`, a ProduceResponse in the order of the markers, follows
        when they are replicated."""
        self._stir()
        wall_ms = now + self.wall_offset_ms
        self._produce.write_markers(markers, reply_to, now, wall_ms, timeout_ms=timeout_ms)

    def verify_transaction(
        self,
        topic_partition: TopicPartition,
        producer: messages.TransactionalProducer,
        release: Release,
        now: Instant,
    ) -> None:
        """Before a coordinator writes into a producer's transaction in its partition: `release` is
        called, now or later, with what the transaction coordinator says."""
        self._stir()
        partition = self._env.hosted.partitions.get(topic_partition)
        wall_ms = now + self.wall_offset_ms
        code = partition and self._verification.judge(partition, producer)
        if partition is not None and code is ErrorCode.NONE:
            self._verification.hold(partition, producer, 0, wall_ms, release)
        else:
            release(Verdict(code or ErrorCode.NONE, now, wall_ms))

    def describe_producers(self, topic: str, number: int) -> messages.ProducersOf:
        """What the leader of a partition knows of its producers."""
        return producers_of(self._env, topic, number)

    def on_transaction_verified(self, token: Token, code: ErrorCode, now: Instant) -> None:
        """The answer to a `VerifyTransaction`, or why the coordinator could not be asked."""
        self._stir()
        self._verification.on_answer(token, code, now, now + self.wall_offset_ms)
