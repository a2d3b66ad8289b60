"""A share coordinator: the share partitions of one partition of `__share_group_state`.

A share group reads a topic as a queue: several members share one partition, and each record is
settled by itself. The leader of a partition keeps track of that in memory (which records are with a
member, for how long) and has it kept here, so that another leader can go on. A share partition (a
group and a partition) belongs to the coordinator that the hash of `group:topic id:partition` names
(`rsm/placement.py`). How a coordinator loads, decides and resigns is in `rsm/coordinator.py`.

Two parties ask. The group coordinator initialises a share partition before members get it, begins
it anew when an administrator moves the group, and deletes it. The leader of the partition reads it
when it begins to serve the group, and writes what changes.

| part | decides |
| --- | --- |
| `decisions` | what a request makes of a share partition, and who is fenced |
| `batches` | what is known after a leader's report |
| `upkeep` | what is not needed any more |

Invariants: those of the kernel, ShareStateIsFenced (`decisions.py`), NothingNeededIsPruned
(`upkeep.py`).

Left out: which broker is asked, and the deletion of the log's beginning (`broker/`).

Source: KIP-932; Kafka's share coordinator.
"""

from collections.abc import Callable, Hashable

from tidelog.config import SharesConfig
from tidelog.env.instant import Instant
from tidelog.env.trace import Trace
from tidelog.errors import ErrorCode
from tidelog.limits import MAX_SHARE_RECORDS_PER_BATCH
from tidelog.model import TopicId
from tidelog.rsm.coordinator import NOT_COORDINATOR, Coordinator, Refused, ReplyTo
from tidelog.rsm.kernel import Committed, Kernel, ReplicatedLog
from tidelog.rsm.log_records import LogRecord
from tidelog.rsm.shared_map import SharedMap
from tidelog.shares.decisions import Surroundings, decide
from tidelog.shares.env import Env, SharesKernel
from tidelog.shares.image import SharesImage, SharesMachine, ShareState
from tidelog.shares.messages import Request, Response
from tidelog.shares.upkeep import Upkeep


class ShareCoordinator(Coordinator[Env, Request, Response]):
    """The share partitions of one partition."""

    def __init__(
        self,
        log: ReplicatedLog[LogRecord],
        config: SharesConfig,
        trace: Trace,
        partition_count: Callable[[TopicId], int],
    ) -> None:
        """`partition_count` says how many partitions a topic has now; 0 for one that does not
        exist."""
        kernel: SharesKernel = Kernel(
            SharesMachine(),
            log,
            initial=SharesImage(),
            max_batch_records=MAX_SHARE_RECORDS_PER_BATCH,
            compacted=True,
        )
        self._kernel = kernel
        env = Env(config=config, trace=trace, kernel=kernel, partition_count=partition_count)
        super().__init__(env)
        self._upkeep = Upkeep(env)

    @property
    def entries(self) -> SharedMap[ShareState]:
        """What no other leader can take back."""
        return self._kernel.committed.states

    @property
    def redundant_before(self) -> int:
        """No record below this offset is needed any more."""
        return self._upkeep.redundant_before

    # The log ------------------------------------------------------------------------------

    def load(self, batch: Committed[LogRecord]) -> None:
        """Takes the next batches of the log, which are committed."""
        kernel = self._kernel
        if batch.base_offset > kernel.committed_offset + 1:
            # Its beginning is deleted: offsets are counted from where it begins now.
            begun = SharesImage(kernel.committed.states, batch.base_offset)
            kernel.load(begun, batch.base_offset - 1)
        super().load(batch)

    def become_active(self, epoch: int, now: Instant) -> None:
        """Everything before this leadership is loaded: decides from now on."""
        self._kernel.become_active(epoch)
        self._upkeep.start(now)

    def resign(self) -> None:
        """Another node leads: all that wait get NOT_COORDINATOR."""
        self._kernel.resign(NOT_COORDINATOR)
        self._upkeep.stop()
        for reply_to, response in self._kernel.take_replies():
            self._env.answer(reply_to, response)

    # Requests -----------------------------------------------------------------------------

    def _decide(self, request: Request, reply_to: ReplyTo, now: Instant) -> None:
        """The answer waits for all that was written before it: it rests on that."""
        env, kernel = self._env, self._kernel
        if not kernel.has_room:
            env.answer(reply_to, Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        partition = request.partition
        around = Surroundings(
            partition.partition < env.partition_count(partition.topic_id),
            env.wall_ms(now),
            env.config.updates_per_snapshot,
        )
        result, record = decide(kernel.latest.get(partition), request, around)
        code = env.append([] if record is None else [record], result, reply_to)
        if code is not ErrorCode.NONE:
            env.answer(reply_to, Refused(code))

    def _on_committed(self, reply_to: Hashable, response: Response, now: Instant) -> None:
        self._env.answer(reply_to, response)

    # Time ---------------------------------------------------------------------------------

    def on_topic_deleted(self, now: Instant) -> None:
        """Some topic was deleted; what belongs to it is forgotten."""
        self._upkeep.hurry(now)

    def _wake(self, now: Instant) -> None:
        self._upkeep.wake(now)

    def deadline(self) -> Instant | None:
        """When the log is looked at again."""
        return self._upkeep.due_at

    # Invariants ---------------------------------------------------------------------------

    def check(self) -> None:
        """Asserts the invariants."""
        self._kernel.check()
        for key, known in self.entries.items():
            assert known.snapshot_offset >= self.redundant_before, (
                f"NothingNeededIsPruned: {key} is at {known.snapshot_offset}, "
                f"everything before {self.redundant_before} was deleted"
            )
