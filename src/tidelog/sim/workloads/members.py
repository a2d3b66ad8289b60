"""Members of a consumer group (KIP-848): they come, leave, die, and give back what they must.

All belong to one group, which is subscribed to the topics of the workload by name and by a regular
expression. A member sends heartbeats to its coordinator as clients do. Sometimes it takes its time
with giving partitions back; sometimes it leaves; sometimes its process ends without a word, and
another one with another member id takes its place.

Checked on the spot, with each answer:

- SingleOwner: no two members receive a partition in the same member epoch. That holds for one that
  was removed and does not know it, too: the next owner gets its partitions in a later epoch.
- GroupEpochsRise: the epoch that a member receives never falls while it is one.

At the end every partition of the topics is with exactly one member, and no member waits.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.groups.consumer_records import IdPartition
from tidelog.model import NO_LEADER, OFFSETS_TOPIC, TopicId
from tidelog.sim.engine.client_machine import Session
from tidelog.sim.report.violation import Violation
from tidelog.sim.workloads.cluster_view import ClusterView, newest_image, request
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.values import bytes_of, error_of, millis, uuid_of

GROUP: Final = "members"
PAUSE_MS: Final = 150
REBALANCE_MS: Final = 2_000
TOPICS: Final = ("t1", "t2")
"""The topics of the workload that each run begins with."""
REGEX: Final = "t[12]"
GONE: Final = frozenset((ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID))
"""After these a member is none any more, and joins again."""
ELSEWHERE: Final = frozenset(
    (
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    )
)


class Given(NamedTuple):
    """A partition in an epoch of its group's members."""

    partition: IdPartition
    epoch: int


class Owners:
    """Who has received each partition."""

    def __init__(self) -> None:
        self._members: dict[Given, str] = {}

    def give(self, member_id: str, epoch: int, assigned: set[IdPartition]) -> None:
        """A member has got an assignment."""
        for each in sorted(assigned):
            owner = self._members.setdefault(Given(each, epoch), member_id)
            if owner != member_id:
                raise Violation(
                    "SingleOwner", f"{owner} and {member_id} both have {each} in epoch {epoch}"
                )


class Member:
    """One client, in one process after the other."""

    def __init__(self, view: ClusterView, prng: Prng, owners: Owners) -> None:
        self._view = view
        self._prng = prng
        self._owners = owners
        self._session: Session | None = None
        # How many processes there were.
        self._processes = 1
        self._epoch = 0
        # What it uses.
        self.held: set[IdPartition] = set()
        # What it has received; it gives the rest back with its next heartbeat, or later.
        self.assigned: set[IdPartition] = set()
        # Whether an answer was lost: the next heartbeat says everything, to receive everything.
        self._missed = False
        self._stopped = False

    @property
    def member_id(self) -> str:
        """Of the process at the moment."""
        return f"{self._view.name}-{self._processes}"

    @property
    def is_member(self) -> bool:
        """Whether it was taken in, as far as it knows."""
        return self._epoch > 0

    def start(self) -> None:
        """Heartbeats on and on."""
        self._later()

    def stop(self) -> None:
        """Stays as long as the run lasts."""
        self._stopped = True

    def _later(self) -> None:
        self._view.world.at(self._prng.between(PAUSE_MS // 4, PAUSE_MS * 2), self._go_on)

    def _go_on(self) -> None:
        if self._session is None or self._session.closed:
            # Who asks before a committer has made the topic would make it without its settings.
            if OFFSETS_TOPIC in newest_image(self._view.world).topics_by_name:
                self._find()
            else:
                self._later()
        elif not self._stopped and self._prng.chance(1, 60):
            self._next_process()
            self._later()
        elif not self._stopped and self._epoch and self._prng.chance(1, 60):
            self._beat(leaves=True)
        else:
            self._beat(leaves=False)

    def _next_process(self) -> None:
        self._processes += 1
        self._epoch, self.held, self.assigned = 0, set(), set()

    def _find(self) -> None:
        wanted = request(ApiKey.FIND_COORDINATOR, 2, key=GROUP, key_type=0)

        def found(response: Entity | None) -> None:
            if response is not None and error_of(response.error_code) is ErrorCode.NONE:
                node_id = int(response.node_id)
                self._session = None if node_id == NO_LEADER else self._view.session(node_id)
            self._later()

        self._view.ask(wanted, found)

    def _beat(self, *, leaves: bool) -> None:
        joins = self._epoch == 0
        if not self.held <= self.assigned and self._prng.chance(2, 3):
            self.held = set(self.assigned)
        by_name = self._processes % 2 == 0
        values: dict[str, object] = {}
        if joins or self._missed:
            values["rebalance_timeout"] = millis(REBALANCE_MS)
            values |= (
                {"subscribed_topic_names": TOPICS} if by_name else {"subscribed_topic_regex": REGEX}
            )
        member_id, held = self.member_id, set(self.held)
        wanted = request(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            1,
            **{
                "group_id": GROUP,
                "member_id": member_id,
                "member_epoch": -1 if leaves else self._epoch,
                "topic_partitions": None if leaves else _rows(held),
                **values,
            },
        )
        if leaves:
            self._next_process()

        def answered(response: Entity | None) -> None:
            self._missed = response is None
            if response is None:
                self._session = None
            elif member_id == self.member_id:
                self._take(response, joins=joins)

        self._ask(wanted, answered)

    def _is_undecided(self, code: ErrorCode) -> bool:
        """Whether a node with an authorizer may have answered before it had any metadata."""
        return code is ErrorCode.UNKNOWN_SERVER_ERROR and any(
            host.config.authorization.authorizer_class for host in self._view.world.hosts.values()
        )

    def _take(self, response: Entity, *, joins: bool) -> None:
        code = error_of(response.error_code)
        if code in ELSEWHERE or self._is_undecided(code):
            # What it asked for may yet come into force.
            self._session, self._missed = None, True
        elif code in GONE:
            self._epoch, self.held, self.assigned = 0, set(), set()
        elif code is not ErrorCode.NONE:
            raise Violation("ErrorCodeTruth", f"{self.member_id} got {code.name}")
        else:
            if not joins and response.member_epoch < self._epoch:
                text = f"{self.member_id} was at {self._epoch}, and is at {response.member_epoch}"
                raise Violation("GroupEpochsRise", text)
            self._epoch = response.member_epoch
            if response.assignment is not None:
                self.assigned = {
                    IdPartition(TopicId(bytes_of(each.topic_id)), number)
                    for each in response.assignment.topic_partitions
                    for number in each.partitions
                }
                self.held |= self.assigned
            self._owners.give(self.member_id, self._epoch, self.assigned)

    def _ask(self, wanted: Entity, answered: Callable[[Entity | None], None]) -> None:
        session = self._session
        assert session is not None, "no coordinator"
        key, version = wanted.__api_key__, wanted.__version__

        def done(frame: bytes | None) -> None:
            answered(None if frame is None else codec.decode_response(key, version, frame)[1])
            self._later()

        session.request(codec.encode_request(wanted, session.correlation_id, self._view.name), done)


class Members:
    """All members of the group."""

    def __init__(self, views: list[ClusterView], prng: Prng) -> None:
        owners = Owners()
        self._views = views
        self._members = [Member(each, Prng(prng.next_u64()), owners) for each in views]

    def start(self) -> None:
        """Lets everyone go."""
        for each in self._members:
            each.start()

    def stop(self) -> None:
        """Members stay members."""
        for each in self._members:
            each.stop()

    @property
    def is_settled(self) -> bool:
        """Whether each partition is with one member."""
        if not self._members:
            return True
        newest = newest_image(self._views[0].world)
        if OFFSETS_TOPIC not in newest.topics_by_name:
            return True
        wanted = sorted(
            IdPartition(topic.topic_id, number)
            for topic in newest.topics_by_name.values()
            if topic.name in TOPICS
            for number in topic.partitions
        )
        held = sorted(partition for each in self._members for partition in each.held)
        return held == wanted and all(each.is_member for each in self._members)


def _rows(partitions: set[IdPartition]) -> list[dict[str, object]]:
    topics: dict[TopicId, list[int]] = {}
    for topic_id, number in sorted(partitions):
        topics.setdefault(topic_id, []).append(number)
    return [{"topic_id": uuid_of(each), "partitions": rows} for each, rows in topics.items()]
