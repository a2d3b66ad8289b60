"""Which replica a consumer is sent to (KIP-392).

A consumer names its rack in each fetch. The leader, and only the leader, may answer
"read from that replica", with no records; the consumer then fetches from that follower until its
lease on the advice ends or an answer from there sends it back. `replica.selector.class` names the
rule.

| `replica.selector.class` | a consumer is sent to |
| --- | --- |
| none, or Kafka's LeaderSelector | no follower: the leader serves it |
| Kafka's RackAwareReplicaSelector | the leader if it or no replica is in the consumer's rack, \
else the most caught-up candidate there |

A candidate is in the committed ISR, unfenced, reachable on the listener that the consumer uses, and
has claimed, in this leadership, to hold the offset that the consumer wants: its log neither starts
above nor ends below it. So an advised follower can always go on where the consumer stands
(`FollowerReadsAreMonotone`): it may know an older high watermark, and then it has nothing yet, but
it never answers that the offset does not exist.

Source: KIP-392; Kafka's RackAwareReplicaSelector for the order of candidates.
"""

from typing import Final

from tidelog.config import RACK_AWARE_SELECTOR
from tidelog.env.instant import Instant
from tidelog.replication.leader import LeaderState
from tidelog.replication.partition import PartitionEnv

READ_HERE: Final = -1
"""No other replica is preferred."""


class ReadReplicaSelector:
    """The rule that `replica.selector.class` names, on one node."""

    __slots__ = ("_brokers", "_node_id", "by_rack")

    def __init__(self, env: PartitionEnv) -> None:
        # Whether racks matter at all; nothing else is looked at when they do not.
        self.by_rack = env.config.replica_selector_class == RACK_AWARE_SELECTOR
        self._node_id = env.node_id
        self._brokers = env.brokers

    def decide(
        self,
        leadership: LeaderState,
        fetch_offset: int,
        *,
        rack_id: str,
        listener: str,
        now: Instant,
    ) -> int:
        """The follower to be read instead of this leader, or `READ_HERE`."""
        brokers = self._brokers
        if not self.by_rack or not rack_id or brokers.rack_of(self._node_id) == rack_id:
            return READ_HERE
        best, best_rank = READ_HERE, (-1, 0, 0)
        for replica_id, remote in leadership.remotes.items():
            if (
                replica_id in leadership.isr
                and brokers.rack_of(replica_id) == rack_id
                and remote.log_start_offset <= fetch_offset <= remote.log_end_offset
                and brokers.serves(replica_id, listener)
            ):
                rank = (remote.log_end_offset, remote.last_caught_up - now, -replica_id)
                if best == READ_HERE or rank > best_rank:
                    best, best_rank = replica_id, rank
        return best
