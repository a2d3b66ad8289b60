"""A share group (KIP-932): its members, and the client that makes the state of share partitions.

All members (`sharer.py`) belong to one group, which shares the topics of the workload.

The group's coordinator is left out: one of the clients makes the state of each share partition as
the coordinator would (InitializeShareGroupState), and every member fetches everything.

`evidence/deliveries.py` has what is checked. At the end the group is done with every record.
"""

from collections.abc import Callable
from typing import Final

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.model import SHARES_TOPIC, TopicPartition, uuid_to_text
from tidelog.sharing.values import ShareKey
from tidelog.sim.evidence.deliveries import Deliveries, SharedPlace
from tidelog.sim.workloads.admin import Admin
from tidelog.sim.workloads.cluster_view import ClusterView, Place, newest_image, request
from tidelog.sim.workloads.sharer import GROUP, PAUSE_MS, Sharer
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.values import error_of, uuid_of

LOCK_MS: Final = 1000
LIMIT: Final = 5
STATE_PARTITIONS: Final = 2


class Sharers:
    """All members of the group, and the client that makes the state of share partitions."""

    def __init__(self, view: ClusterView, admin: Admin, names: list[ClusterView], prng: Prng,
                 *, flushed: bool) -> None:  # fmt: skip
        self._view = view
        self._admin = admin
        self._prng = prng
        # Whether the topic of the state flushes with each append.
        self._flushed = flushed
        self.deliveries = Deliveries(LOCK_MS, LIMIT)
        self._stopped = False
        # Whether the topic exists, and members fetch.
        self._has_begun = False
        # Partitions whose state is made.
        self._ready: set[SharedPlace] = set()
        # How often it was tried: each attempt fences those before it.
        self._attempts = 0
        self._members = [
            Sharer(each, Prng(prng.next_u64()), self.deliveries, self._ready) for each in names
        ]

    def start(self) -> None:
        """Creates the topic of the state as this run needs it, then lets everyone go."""
        if not self._members:
            return
        configs = {"flush.messages": "1"} if self._flushed else {}

        def done(code: ErrorCode | None) -> None:
            if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                self._later(self.start)
                return
            self._has_begun = True
            self._make_states()
            for each in self._members:
                each.start()

        if not self._stopped:
            self._admin.create(SHARES_TOPIC, STATE_PARTITIONS, configs, done)

    def stop(self) -> None:
        """Members settle what there is."""
        self._stopped = True
        for each in self._members:
            each.stop()

    def _later(self, action: Callable[[], None]) -> None:
        self._view.world.at(self._prng.between(PAUSE_MS // 4, PAUSE_MS * 2), action)

    def _places(self) -> list[Place]:
        return sorted(self._view.places.values())

    def _make_states(self) -> None:
        """One after the other, as long as there are faults: with many topics on slow disks it takes
        longer than a run has to heal."""
        if self._stopped:
            return
        missing = [
            shared
            for place in self._places()
            if (shared := SharedPlace(place.topic_id, place.partition)) not in self._ready
        ]
        if not missing:
            self._view.refresh(lambda: self._later(self._make_states))
            return
        place = self._prng.choice(missing)
        name = f"{GROUP}:{uuid_to_text(place.topic_id)}:{place.partition}"
        wanted = request(ApiKey.FIND_COORDINATOR, 6, coordinator_keys=(name,), key_type=2)

        def found(response: Entity | None) -> None:
            row = None if response is None else response.coordinators[0]
            if row is None or error_of(row.error_code) is not ErrorCode.NONE:
                self._view.refresh(lambda: self._later(self._make_states))
            else:
                self._make_state(place, int(row.node_id))

        self._view.ask(wanted, found)

    def _make_state(self, place: SharedPlace, node_id: int) -> None:
        self._attempts += 1
        row = {"partition": place.partition, "state_epoch": self._attempts, "start_offset": 0}
        wanted = request(
            ApiKey.INITIALIZE_SHARE_GROUP_STATE,
            0,
            group_id=GROUP,
            topics=[{"topic_id": uuid_of(place.topic_id), "partitions": [row]}],
        )
        key, session = wanted.__api_key__, self._view.session(node_id)

        def done(frame: bytes | None) -> None:
            if frame is not None:
                response = codec.decode_response(key, 0, frame)[1]
                if error_of(response.results[0].partitions[0].error_code) is ErrorCode.NONE:
                    self._ready.add(place)
            self._view.refresh(lambda: self._later(self._make_states))

        frame = codec.encode_request(wanted, session.correlation_id, self._view.name)
        session.request(frame, done)

    @property
    def unsettled(self) -> list[str]:
        """Partitions of which the group is not done with every record."""
        if not self._has_begun:
            return []
        found = []
        for topic in newest_image(self._view.world).topics_by_name.values():
            if topic.name.startswith("t") and not topic.name.startswith("__"):
                for number, partition in topic.partitions.items():
                    place = SharedPlace(topic.topic_id, number)
                    text = self._state_of(place, topic.name, partition.leader)
                    if text is not None:
                        found.append(f"share partition {topic.name}-{number}: {text}")
        return found

    def _state_of(self, place: SharedPlace, topic: str, leader: int) -> str | None:
        """What the group still has to do with a partition; `None` for nothing."""
        if place not in self._ready:
            return None
        host = self._view.world.hosts.get(leader)
        node = None if host is None else host.node
        if node is None:
            return "no leader"
        held = node.broker.sharing.held.get(ShareKey(GROUP, *place))
        share = None if held is None else held.share
        replica = node.broker.replicas.partitions.get(TopicPartition(topic, place.partition))
        if share is None or replica is None:
            return "not begun"
        if share.start < replica.log.high_watermark:
            return f"at {share.start} of {replica.log.high_watermark}"
        return None

    def judge(self) -> None:
        """At the end: whether each record was delivered."""
        if not self._has_begun:
            return
        for topic in newest_image(self._view.world).topics_by_name.values():
            for number, partition in topic.partitions.items():
                host = self._view.world.hosts.get(partition.leader)
                if host is None or host.node is None:
                    continue
                place = SharedPlace(topic.topic_id, number)
                held = host.node.broker.sharing.held.get(ShareKey(GROUP, *place))
                share = None if held is None else held.share
                key = TopicPartition(topic.name, number)
                replica = host.node.broker.replicas.partitions.get(key)
                if share is not None and replica is not None:
                    self.deliveries.judge(place, replica.log.log_start_offset, share.start)
