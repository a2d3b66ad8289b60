"""A member of a share group (KIP-932): it fetches, and says what became of the records.

It fetches from one leader after the other, keeps its records for a while, and accepts, releases,
rejects or forgets them, with its next fetch or in a request of its own. Sometimes its process ends
without a word, and another one takes its place.

`sharers.py` has the group, `evidence/deliveries.py` what is checked.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.metadata.image import MetadataImage
from tidelog.model import NO_LEADER, SHARES_TOPIC, TopicPartition
from tidelog.records.batch import iter_headers
from tidelog.sharing.sessions import FINAL_EPOCH
from tidelog.sharing.values import ACCEPT, GAP, REJECT, RELEASE, RENEW
from tidelog.sim.engine.client_machine import Session
from tidelog.sim.evidence.deliveries import Deliveries, Leadership, Reception, SharedPlace
from tidelog.sim.report.violation import Violation
from tidelog.sim.workloads.cluster_view import ClusterView, newest_image, request
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.values import bytes_of, error_of, millis, uuid_of

GROUP: Final = "sharers"
PAUSE_MS: Final = 150
HURRIED_PAUSE_MS: Final = 10

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
        is left of all partitions must be read in the time that a run has to heal. Records that were
        delivered often come few at a time, so it waits at no leader that has none, and returns
        what it has to its leader before it asks another: a lock that ends is one more delivery."""
        self._stopped = True

    def _later(self) -> None:
        shortest, longest = PAUSE_MS // 4, PAUSE_MS * 2
        if self._stopped:
            shortest = longest = HURRIED_PAUSE_MS
        self._view.world.at(self._prng.between(shortest, longest), self._go_on)

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
        if self._stopped:
            node_id = next((one for one in sorted(by_leader) if self._holds_of(one)), node_id)
        link = self._link(node_id)
        kinds = self._decide(link)
        if kinds and self._prng.chance(1, 3):
            self._acknowledge(link, kinds)
        else:
            self._fetch(link, by_leader[node_id], kinds)

    def _holds_of(self, node_id: int) -> bool:
        """Whether it has records that came from this node."""
        link = self._links.get(node_id)
        return link is not None and any(link.held.values())

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
            max_wait=millis(0 if self._stopped else self._prng.choice((0, 100, 400))),
            min_bytes=1,
            max_bytes=1 << 20 if self._stopped else self._prng.choice((500, 1 << 20)),
            max_records=500 if self._stopped else self._prng.choice((1, 10, 500)),
            batch_size=self._prng.choice((1, 100)),
            share_acquire_mode=self._prng.choice((0, 1)),
            is_renew_ack=False,
            topics=_rows(sorted({*places, *kinds}), kinds),
            forgotten_topics_data=(),
        )
        terms = self._terms(link, {*places, *kinds})

        def answered(response: Entity) -> None:
            for topic in response.responses:
                for row in topic.partitions:
                    place = SharedPlace(bytes_of(topic.topic_id), row.partition_index)  # type: ignore[arg-type]
                    if place in kinds:
                        code = ErrorCode(row.acknowledge_error_code)
                        self._on_acknowledged(link, place, kinds[place], code, terms[place])
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
        terms = self._terms(link, kinds)

        def answered(response: Entity) -> None:
            for topic in response.responses:
                for row in topic.partitions:
                    place = SharedPlace(bytes_of(topic.topic_id), row.partition_index)  # type: ignore[arg-type]
                    code = error_of(row.error_code)
                    if place in kinds:
                        self._on_acknowledged(link, place, kinds[place], code, terms[place])
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
            else:
                raise Violation("ErrorCodeTruth", f"{self.member_id} got {code.name}")

        frame = codec.encode_request(wanted, link.session.correlation_id, self._view.name)
        link.session.request(frame, done)

    # Answers ------------------------------------------------------------------------------------

    def _on_acknowledged(
        self,
        link: Link,
        place: SharedPlace,
        said: dict[int, int],
        code: ErrorCode,
        term: Leadership | None,
    ) -> None:
        """`term` is that in which the node led when it was asked: without one nothing is known."""
        if code is ErrorCode.NONE:
            if term is None:
                return
            settled = [offset for offset, kind in said.items() if kind not in (RELEASE, RENEW)]
            self._deliveries.settle(place, settled, term.leader_epoch, self._view.world.now)
        elif code not in ACKNOWLEDGE_CODES and not self._may_lack_state(link, place, code):
            raise Violation("ErrorCodeTruth", f"{self.member_id} got {code.name} for {said}")

    def _take(
        self, link: Link, place: SharedPlace, row: Entity, asked_at: int, term: Leadership | None
    ) -> None:
        code = error_of(row.error_code)
        expected = code in FETCH_CODES or code is ErrorCode.NONE
        if not expected and not self._may_lack_state(link, place, code):
            raise Violation("ErrorCodeTruth", f"{self.member_id} got {code.name} for {place}")
        if self._leadership(link.node_id, place) != term:
            term = None
        there: set[int] = set()
        for _, header in iter_headers(bytes(row.records or b"")):
            there.update(range(header.base_offset, header.last_offset + 1))
        held = link.held.setdefault(place, {})
        for each in row.acquired_records:
            first, last, count = each.first_offset, each.last_offset, each.delivery_count
            got = Reception(
                *(place, first, last, count, self.member_id, asked_at, term),
                is_connected=lambda: link.session.is_whole,
            )
            self._deliveries.receive(got, self._view.world.now)
            for offset in range(first, last + 1):
                held[offset] = offset not in there

    def _may_lack_state(self, link: Link, place: SharedPlace, code: ErrorCode) -> bool:
        """Whether a coordinator without the state may have answered, as Kafka's would: the topic
        was deleted, or the node that was asked does not know which coordinator there is now. The
        one before answers from what it has until it learns that it was deposed."""
        if code is not ErrorCode.UNKNOWN_SERVER_ERROR:
            return False
        newest, node = newest_image(self._view.world), self._view.world.hosts[link.node_id].node
        is_deleted = place.topic_id not in newest.topics_by_id
        return is_deleted or node is None or _state_terms(node.broker.image) != _state_terms(newest)

    def _terms(
        self, link: Link, places: Iterable[SharedPlace]
    ) -> dict[SharedPlace, Leadership | None]:
        return {place: self._leadership(link.node_id, place) for place in places}

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


def _state_terms(image: MetadataImage) -> dict[int, int]:
    """The leader epochs of the partitions that share coordinators are on."""
    topic = image.topics_by_name.get(SHARES_TOPIC)
    partitions = {} if topic is None else topic.partitions
    return {number: each.leader_epoch for number, each in partitions.items()}


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
