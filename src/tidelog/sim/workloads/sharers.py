"""Members of a share group (KIP-932): they fetch, and say what became of the records.

All belong to one group, which shares the topics of the workload. A member fetches from a leader,
keeps its records for a while, and accepts, releases, rejects or forgets them, with its next fetch
or in a request of its own. Sometimes its process ends without a word, and another one takes its
place.

The group's coordinator is left out: one of the clients makes the state of each share partition as
the coordinator would (InitializeShareGroupState), and every member fetches everything.

`evidence/deliveries.py` has what is checked. At the end the group is done with every record.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.model import NO_LEADER, SHARES_TOPIC, TopicPartition, uuid_to_text
from tidelog.records.batch import iter_headers
from tidelog.sharing.sessions import FINAL_EPOCH
from tidelog.sharing.values import ACCEPT, GAP, REJECT, RELEASE, RENEW, ShareKey
from tidelog.sim.engine.client_machine import Session
from tidelog.sim.evidence.deliveries import Deliveries, Leadership, Reception, SharedPlace
from tidelog.sim.report.violation import Violation
from tidelog.sim.workloads.admin import Admin
from tidelog.sim.workloads.cluster_view import ClusterView, Place, newest_image, request
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.values import bytes_of, error_of, millis, uuid_of

GROUP: Final = "sharers"
PAUSE_MS: Final = 150
LOCK_MS: Final = 1000
LIMIT: Final = 5
STATE_PARTITIONS: Final = 2

SESSION_CODES: Final = frozenset(
    (ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH)
)
FETCH_CODES: Final = frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )
)
ACKNOWLEDGE_CODES: Final = FETCH_CODES | {ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST}
"""What a member may get where leaders and coordinators change."""

Offsets = list[int]
Kinds = dict[SharedPlace, dict[int, int]]
"""What a member says of its records, by offset."""


@dataclass(slots=True)
class Link:
    """A share session with one leader."""

    node_id: int
    session: Session
    epoch: int = 0
    # What the member has, and which of it are offsets without a record.
    held: dict[SharedPlace, dict[int, bool]] = field(default_factory=dict)


class Sharer:
    """One member, in one process after the other."""

    def __init__(
        self, view: ClusterView, prng: Prng, deliveries: Deliveries, ready: set[SharedPlace]
    ) -> None:
        self._view = view
        self._prng = prng
        self._deliveries = deliveries
        # The partitions that may be fetched.
        self._ready = ready
        self._links: dict[int, Link] = {}
        # How many processes there were.
        self._processes = 1
        self._stopped = False

    @property
    def member_id(self) -> str:
        """Of the process at the moment."""
        return f"{self._view.name}-{self._processes}"

    def start(self) -> None:
        """Fetches on and on."""
        self._later()

    def stop(self) -> None:
        """From now on it accepts everything, and takes as much as it is given, without rests: what
        is left of all partitions must be read in the time that a run has to heal."""
        self._stopped = True

    def _later(self) -> None:
        longest = PAUSE_MS // 4 if self._stopped else PAUSE_MS * 2
        self._view.world.at(self._prng.between(PAUSE_MS // 4, longest), self._go_on)

    def _go_on(self) -> None:
        if not self._stopped and self._prng.chance(1, 40):
            self._die()
        by_leader: dict[int, list[SharedPlace]] = {}
        for place in self._view.places.values():
            shared = SharedPlace(place.topic_id, place.partition)
            if shared in self._ready and place.leader != NO_LEADER:
                by_leader.setdefault(place.leader, []).append(shared)
        if not by_leader or self._prng.chance(1, 10):
            self._view.refresh(self._later)
            return
        node_id = self._prng.choice(sorted(by_leader))
        link = self._link(node_id)
        kinds = self._decide(link)
        if kinds and self._prng.chance(1, 3):
            self._acknowledge(link, kinds)
        else:
            self._fetch(link, by_leader[node_id], kinds)

    def _die(self) -> None:
        for link in self._links.values():
            self._forget(link)
            link.session.close()
        self._links.clear()
        self._processes += 1

    def _link(self, node_id: int) -> Link:
        session = self._view.session(node_id)
        link = self._links.get(node_id)
        if link is None or link.session is not session:
            if link is not None:
                self._forget(link)
            link = self._links[node_id] = Link(node_id, session)
        return link

    def _forget(self, link: Link) -> None:
        """Its records are the broker's again."""
        for place, offsets in link.held.items():
            self._deliveries.give_back(place, offsets, self.member_id)
        link.held.clear()

    def _decide(self, link: Link) -> Kinds:
        """What to say of which records."""
        kinds: Kinds = {}
        for place, offsets in link.held.items():
            if not self._stopped and self._prng.chance(1, 4):
                continue
            usual = self._prng.choice((ACCEPT, ACCEPT, ACCEPT, RELEASE, REJECT))
            if self._stopped:
                usual = ACCEPT
            kinds[place] = {
                offset: GAP if is_gap else usual
                for offset, is_gap in offsets.items()
                if self._stopped or self._prng.chance(7, 8)
            }
        return {place: said for place, said in kinds.items() if said}

    # Requests -----------------------------------------------------------------------------------

    def _fetch(self, link: Link, places: list[SharedPlace], kinds: Kinds) -> None:
        now = self._view.world.now
        if link.epoch == 0:
            kinds = {}
        wanted = request(
            ApiKey.SHARE_FETCH,
            2,
            group_id=GROUP,
            member_id=self.member_id,
            share_session_epoch=link.epoch,
            max_wait=millis(self._prng.choice((0, 100, 400))),
            min_bytes=1,
            max_bytes=1 << 20 if self._stopped else self._prng.choice((500, 1 << 20)),
            max_records=500 if self._stopped else self._prng.choice((1, 10, 500)),
            batch_size=self._prng.choice((1, 100)),
            share_acquire_mode=self._prng.choice((0, 1)),
            is_renew_ack=False,
            topics=_rows(sorted({*places, *kinds}), kinds),
            forgotten_topics_data=(),
        )
        terms = {place: self._leadership(link.node_id, place) for place in places}

        def answered(response: Entity) -> None:
            for topic in response.responses:
                for row in topic.partitions:
                    place = SharedPlace(bytes_of(topic.topic_id), row.partition_index)  # type: ignore[arg-type]
                    if place in kinds:
                        code = ErrorCode(row.acknowledge_error_code)
                        self._on_acknowledged(link, place, kinds[place], code)
                    self._take(link, place, row, now, terms.get(place))

        self._send(link, wanted, kinds, answered)

    def _acknowledge(self, link: Link, kinds: Kinds) -> None:
        renews = not self._stopped and self._prng.chance(1, 6)
        if renews:
            kinds = {place: dict.fromkeys(said, RENEW) for place, said in kinds.items()}
        ends = not renews and not self._stopped and self._prng.chance(1, 10)
        wanted = request(
            ApiKey.SHARE_ACKNOWLEDGE,
            2,
            group_id=GROUP,
            member_id=self.member_id,
            share_session_epoch=FINAL_EPOCH if ends else link.epoch,
            is_renew_ack=renews,
            topics=_rows(sorted(kinds), kinds),
        )

        def answered(response: Entity) -> None:
            for topic in response.responses:
                for row in topic.partitions:
                    place = SharedPlace(bytes_of(topic.topic_id), row.partition_index)  # type: ignore[arg-type]
                    code = error_of(row.error_code)
                    if place in kinds:
                        self._on_acknowledged(link, place, kinds[place], code)
            if ends:
                self._forget(link)
                link.epoch = 0

        self._send(link, wanted, kinds, answered)

    def _send(
        self, link: Link, wanted: Entity, kinds: Kinds, answered: Callable[[Entity], None]
    ) -> None:
        """Sends a request; what it says of records counts from now on."""
        key, version, process = wanted.__api_key__, wanted.__version__, self._processes
        for place, said in kinds.items():
            gone = [offset for offset, kind in said.items() if kind != RENEW]
            self._deliveries.give_back(place, gone, self.member_id)
            for offset in gone:
                del link.held[place][offset]

        def done(frame: bytes | None) -> None:
            self._later()
            if frame is None:
                self._deliveries.lost += 1
            if frame is None or process != self._processes:
                self._forget(link)
                return
            response = codec.decode_response(key, version, frame)[1]
            code = error_of(response.error_code)
            if code is ErrorCode.NONE:
                link.epoch += 1
                answered(response)
            elif code in SESSION_CODES:
                self._forget(link)
                link.epoch = 0
            elif code is not ErrorCode.UNSUPPORTED_VERSION:
                # A broker that is behind may not know yet that the feature is on.
                raise Violation("ErrorCodeTruth", f"{self.member_id} got {code.name}")

        frame = codec.encode_request(wanted, link.session.correlation_id, self._view.name)
        link.session.request(frame, done)

    # Answers ------------------------------------------------------------------------------------

    def _on_acknowledged(
        self, link: Link, place: SharedPlace, said: dict[int, int], code: ErrorCode
    ) -> None:
        if code is ErrorCode.NONE:
            settled = [offset for offset, kind in said.items() if kind not in (RELEASE, RENEW)]
            self._deliveries.settle(place, settled, self._view.world.now)
        elif code not in ACKNOWLEDGE_CODES and not self._is_deleted(place, code):
            raise Violation("ErrorCodeTruth", f"{self.member_id} got {code.name} for {said}")

    def _take(
        self, link: Link, place: SharedPlace, row: Entity, asked_at: int, term: Leadership | None
    ) -> None:
        code = error_of(row.error_code)
        expected = code in FETCH_CODES or code is ErrorCode.NONE
        if not expected and not self._is_deleted(place, code):
            raise Violation("ErrorCodeTruth", f"{self.member_id} got {code.name} for {place}")
        if self._leadership(link.node_id, place) != term:
            term = None
        there: set[int] = set()
        for _, header in iter_headers(bytes(row.records or b"")):
            there.update(range(header.base_offset, header.last_offset + 1))
        held = link.held.setdefault(place, {})
        for each in row.acquired_records:
            first, last, count = each.first_offset, each.last_offset, each.delivery_count
            got = Reception(place, first, last, count, self.member_id, asked_at, term)
            self._deliveries.receive(got, self._view.world.now)
            for offset in range(first, last + 1):
                held[offset] = offset not in there

    def _is_deleted(self, place: SharedPlace, code: ErrorCode) -> bool:
        """Whether a coordinator has forgotten the state, because the topic was deleted."""
        topics = newest_image(self._view.world).topics_by_id
        return code is ErrorCode.UNKNOWN_SERVER_ERROR and place.topic_id not in topics

    def _leadership(self, node_id: int, place: SharedPlace) -> Leadership | None:
        """The term in which the node leads the partition, if it does."""
        host = self._view.world.hosts[node_id]
        if host.node is None:
            return None
        topic = host.node.broker.image.topics_by_id.get(place.topic_id)
        if topic is None:
            return None
        replica = host.node.broker.replicas.partitions.get(
            TopicPartition(topic.name, place.partition)
        )
        if replica is None or replica.leadership is None:
            return None
        return Leadership(node_id, host.life, replica.leader_epoch)


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
        # Whether the feature is on, and members fetch.
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
            exists = code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
            self._later(self._switch_on if exists else self.start)

        if not self._stopped:
            self._admin.create(SHARES_TOPIC, STATE_PARTITIONS, configs, done)

    def _switch_on(self) -> None:
        """Raises `share.version`."""
        update = {"feature": "share.version", "max_version_level": 1, "upgrade_type": 1}
        wanted = request(
            ApiKey.UPDATE_FEATURES,
            1,
            timeout=millis(4000),
            feature_updates=[update],
            validate_only=False,
        )

        def done(code: ErrorCode | None) -> None:
            if code is ErrorCode.NONE:
                self._has_begun = True
                self._make_states()
                for each in self._members:
                    each.start()
            else:
                self._later(self._switch_on)

        if not self._stopped:
            self._admin.ask(wanted, done)

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


def _rows(places: list[SharedPlace], kinds: Kinds) -> list[dict[str, object]]:
    """The partitions of a request, with what is said of records of each."""
    topics: dict[bytes, list[dict[str, object]]] = {}
    for place in places:
        said = kinds.get(place, {})
        runs: list[list[int]] = []
        for offset in sorted(said):
            if runs and runs[-1][-1] + 1 == offset:
                runs[-1].append(offset)
            else:
                runs.append([offset])
        batches = [
            {
                "first_offset": run[0],
                "last_offset": run[-1],
                "acknowledge_types": tuple(said[offset] for offset in run),
            }
            for run in runs
        ]
        row = {"partition_index": place.partition, "acknowledgement_batches": batches}
        topics.setdefault(place.topic_id, []).append(row)
    return [{"topic_id": uuid_of(each), "partitions": rows} for each, rows in topics.items()]
