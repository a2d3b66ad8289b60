"""Which leader each followed partition is fetched from: one `ReplicaFetcher` per leader broker.

Invariant `FollowsItsLeader`: a follower with a known leader is fetched from that leader, in its
epoch, by exactly one fetcher, unless its log is offline.
"""

from collections.abc import Iterable, Sequence

from tidelog.env.instant import Instant, earliest
from tidelog.model import NO_LEADER
from tidelog.replication.fetch_state import FetchState
from tidelog.replication.fetcher import ReplicaFetcher
from tidelog.replication.messages import ListOffsetsResult, Token, TruncationsAnnounced
from tidelog.replication.partition import Partition, Role
from tidelog.replication.shared import Env
from tidelog.wire.fetch import FetchResponse


class Fetchers:
    """All fetchers of a node."""

    __slots__ = ("_announced", "_announced_count", "_by_leader", "_by_partition", "_env")

    def __init__(self, env: Env) -> None:
        self._env = env
        # By the broker id of the leader; one without partitions waits for its last answer.
        self._by_leader: dict[int, ReplicaFetcher] = {}
        # Where each followed partition is fetched from.
        self._by_partition: dict[Partition, ReplicaFetcher] = {}
        # Truncations that wait for a checkpoint, by its number.
        self._announced: dict[TruncationsAnnounced, list[FetchState]] = {}
        self._announced_count = 0

    def follow(self, partition: Partition) -> None:
        """Fetches a partition from its leader, in its leader's epoch, from now on.

        Raises `StorageError`.
        """
        self.stop(partition)
        fetcher = self._by_leader.get(partition.leader_id)
        if fetcher is None:
            fetcher = ReplicaFetcher(partition.leader_id, self._env)
            self._by_leader[partition.leader_id] = fetcher
        self._by_partition[partition] = fetcher
        if fetcher.add(partition, partition.leader_epoch):
            self._env.directories.checkpoint_recovery_points()

    def stop(self, partition: Partition) -> None:
        """Fetches a partition no longer."""
        fetcher = self._by_partition.pop(partition, None)
        if fetcher is not None:
            fetcher.followed.remove(partition)

    def resume(self, broker_ids: Iterable[int]) -> None:
        """The metadata has something new about these brokers."""
        for broker_id in broker_ids:
            fetcher = self._by_leader.get(broker_id)
            if fetcher is not None:
                fetcher.resume()

    def poll(self, now: Instant) -> None:
        """Sends the next requests."""
        retained = self._env.changed.retained
        for partition in retained:
            if partition in self._by_partition:
                self._by_partition[partition].followed.note_start(partition)
        retained.clear()
        for fetcher in self._by_leader.values():
            fetcher.poll(now)

    def apply_rest(self, now: Instant) -> None:
        """Applies the next partitions of fetch answers that earlier turns did not finish."""
        for fetcher in self._by_leader.values():
            if fetcher.has_rest:
                fetcher.apply_rest(now)
                self._announce_cuts(fetcher)

    def on_fetch_response(self, token: Token, response: FetchResponse | None, now: Instant) -> None:
        """Applies the answer to a `SendFetch`."""
        for fetcher in self._by_leader.values():
            if fetcher.token == token:
                fetcher.on_fetch_response(response, now)
                self._announce_cuts(fetcher)
                return
        raise AssertionError(f"OneFetchInFlight: no fetcher waits for token {token}")

    def on_list_offsets_response(
        self, token: Token, results: Sequence[ListOffsetsResult] | None, now: Instant
    ) -> None:
        """Applies the answer to a `SendListOffsets`."""
        for fetcher in self._by_leader.values():
            if fetcher.bounds.token == token:
                fetcher.bounds.on_list_offsets_response(results, now)
                self._announce_cuts(fetcher)
                return
        raise AssertionError(f"no fetcher waits for token {token}")

    def _announce_cuts(self, fetcher: ReplicaFetcher) -> None:
        """Asks for the checkpoints for which truncations wait."""
        cutting = fetcher.followed.cutting
        if not cutting:
            return
        fetcher.followed.cutting = []
        parts = self._env.directories.split(cutting, lambda state: state.partition.topic_partition)
        for directory, states in parts:
            if states:
                self._announced_count += 1
                subject = TruncationsAnnounced(self._announced_count)
                self._announced[subject] = states
                directory.checkpoint_high_watermarks()
                directory.checkpoint_recovery_points(subject)

    def on_announced(self, subject: TruncationsAnnounced) -> None:
        """The checkpoint is durable: cuts what waits for it and is still to be cut, until the work
        of this turn is spent. The rest waits for the next checkpoint."""
        states = iter(self._announced.pop(subject))
        for state in states:
            fetcher = self._by_partition.get(state.partition)
            if fetcher is not None:
                fetcher.answers.on_announced(state)
            if self._env.work.is_spent:
                break
        for state in states:
            fetcher = self._by_partition.get(state.partition)
            if fetcher is not None:
                fetcher.followed.cutting.append(state)
        for fetcher in self._by_leader.values():
            self._announce_cuts(fetcher)

    def deadline(self) -> Instant | None:
        """When `poll` has something to do that no answer brings about."""
        return earliest(*(fetcher.deadline() for fetcher in self._by_leader.values()))

    def check(self, partitions: Iterable[Partition]) -> None:
        """Asserts `FollowsItsLeader` for all hosted partitions."""
        for fetcher in self._by_leader.values():
            fetcher.check()
        for partition in partitions:
            fetcher_of = self._by_partition.get(partition)
            follows = partition.role is Role.FOLLOWER and partition.leader_id != NO_LEADER
            assert follows == (fetcher_of is not None), f"FollowsItsLeader: {partition}"
            if fetcher_of is not None:
                epoch = fetcher_of.epoch_of(partition)
                assert epoch == partition.leader_epoch, f"FollowsItsLeader: {partition} in {epoch}"
