"""Committers: each commits rising offsets for a group of its own, and asks for them again.

A group without members takes commits from any client, so the coordinator is tried without
rebalances: its loading, its loss of leadership, its waiting for replicas. A committer has one
request under way. It looks for the coordinator as clients do, and goes to any that it is sent to.

Checked on the spot (`CommittedNeverRegresses`): what the coordinator answers is the last commit
that was acknowledged, or one whose outcome the client never learned. Such a commit may come into
force late, since nothing fences a client without a generation. An older one is a lost commit. A
node that has lost the leadership without knowing it answers from what was committed while it led;
such answers are not judged. No commit at all is right where the topic of the last one was deleted:
offsets go with their topic, and one that has its name begins without any.
"""

from collections.abc import Callable
from typing import Final

from tidelog.broker.node import Node
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.model import NO_LEADER, NO_OFFSET, OFFSETS_TOPIC, TopicId
from tidelog.sim.engine.client_machine import Session
from tidelog.sim.report.violation import Violation
from tidelog.sim.workloads.admin import Admin
from tidelog.sim.workloads.cluster_view import (
    Answered,
    ClusterView,
    leads_newest,
    newest_image,
    request,
)
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.values import error_of

PAUSE_MS: Final = 200
PARTITIONS: Final = 2
TOPIC: Final = "t1"
"""The first topic of the workload; commits to it are refused while it does not exist."""
UNDECIDED: Final = frozenset((ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR))
"""After these a commit may yet come into force."""


class Committer:
    """One client with one group."""

    def __init__(self, view: ClusterView, admin: Admin, prng: Prng, *, flushed: bool) -> None:
        self._view = view
        self._admin = admin
        self._prng = prng
        # Whether the offsets topic is to survive power cuts of all replicas.
        self._flushed = flushed
        self._session: Session | None = None
        # The node at its other end.
        self._coordinator = NO_LEADER
        # The last offset that was sent.
        self._sent = NO_OFFSET
        # The last one that was acknowledged.
        self._acknowledged = NO_OFFSET
        # The topic that it was for, as the coordinator knew it before.
        self._topic_id: TopicId | None = None
        # Those whose outcome is not known, and may be in force at any time.
        self._unknown: set[int] = set()
        # Whether the offsets topic is there.
        self._has_topic = False
        # No more commits; it goes on asking.
        self._stopped = False
        # Whether it was answered since.
        self._has_ended = False

    def start(self) -> None:
        """Creates the offsets topic as this run needs it, then commits on and on."""
        configs = {"cleanup.policy": "compact"}
        if self._flushed:
            configs["flush.messages"] = "1"

        def done(code: ErrorCode | None) -> None:
            self._has_topic = code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
            self._later(self._go_on if self._has_topic else self.start)

        if not self._stopped:
            self._admin.create(OFFSETS_TOPIC, PARTITIONS, configs, done)

    @property
    def name(self) -> str:
        """Of its group."""
        return self._view.name

    def stop(self) -> None:
        """Commits nothing more."""
        self._stopped = True

    @property
    def is_settled(self) -> bool:
        """Whether its coordinator has answered since the stop."""
        return self._has_ended or not self._has_topic

    def _later(self, action: Callable[[], None]) -> None:
        self._view.world.at(self._prng.between(PAUSE_MS // 4, PAUSE_MS * 2), action)

    def _go_on(self) -> None:
        if self._session is None or self._session.closed:
            self._find()
        elif not self._stopped and self._prng.chance(1, 2):
            self._commit()
        else:
            self._fetch()

    def _find(self) -> None:
        wanted = request(ApiKey.FIND_COORDINATOR, 2, key=self._view.name, key_type=0)

        def found(response: Entity | None) -> None:
            if response is not None and error_of(response.error_code) is ErrorCode.NONE:
                self._coordinator = int(response.node_id)
                self._session = self._view.session(self._coordinator)
            self._later(self._go_on)

        self._view.ask(wanted, found)

    def _ask(self, wanted: Entity, answered: Answered) -> None:
        session = self._session
        assert session is not None, "no coordinator"
        key, version = wanted.__api_key__, wanted.__version__

        def done(frame: bytes | None) -> None:
            answered(None if frame is None else codec.decode_response(key, version, frame)[1])
            self._later(self._go_on)

        frame = codec.encode_request(wanted, session.correlation_id, self._view.name)
        session.request(frame, done)

    def _commit(self) -> None:
        self._sent += 1
        offset = self._sent
        self._unknown.add(offset)
        topic_id = self._topic_of(self._view.world.hosts[self._coordinator].node)
        row = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        wanted = request(
            ApiKey.OFFSET_COMMIT,
            8,
            group_id=self._view.name,
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[{"name": TOPIC, "partitions": [row]}],
        )

        def answered(response: Entity | None) -> None:
            if response is None:
                self._session = None
                return
            code = error_of(response.topics[0].partitions[0].error_code)
            if code is ErrorCode.NONE:
                self._acknowledged, self._topic_id = offset, topic_id
            if code in UNDECIDED:
                self._session = None
            else:
                self._unknown.discard(offset)

        self._ask(wanted, answered)

    def _fetch(self) -> None:
        topics = [{"name": TOPIC, "partition_indexes": (0,)}]
        wanted = request(
            ApiKey.OFFSET_FETCH, 7, group_id=self._view.name, topics=topics, require_stable=True
        )
        least, node_id = self._acknowledged, self._coordinator

        def answered(response: Entity | None) -> None:
            code = None if response is None else error_of(response.error_code)
            if response is None or code is not ErrorCode.NONE:
                self._session = None
                return
            self._has_ended = self._stopped
            found = response.topics[0].partitions[0].committed_offset
            if found == NO_OFFSET and self._was_deleted():
                # The coordinator's successor may show it once more.
                self._unknown.add(self._acknowledged)
                self._acknowledged = NO_OFFSET
                return
            if (
                found != least
                and found not in self._unknown
                and leads_newest(self._view.world, node_id, OFFSETS_TOPIC, self.name)
            ):
                raise Violation(
                    "CommittedNeverRegresses",
                    f"group {self._view.name} has {found}, {least} was acknowledged, unknown are "
                    f"{sorted(self._unknown)}",
                )

        self._ask(wanted, answered)

    @staticmethod
    def _topic_of(node: Node | None) -> TopicId | None:
        topic = None if node is None else node.broker.image.topics_by_name.get(TOPIC)
        return None if topic is None else topic.topic_id

    def _was_deleted(self) -> bool:
        """Whether the last commit was for a topic that is not there any more."""
        topic = newest_image(self._view.world).topics_by_name.get(TOPIC)
        return topic is None or topic.topic_id != self._topic_id
