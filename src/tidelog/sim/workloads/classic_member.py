"""Members of groups of the classic protocol: they join, are assigned, send heartbeats, and read.

A member is a script (`script.py`). Who leads a generation deals the partitions out. Some members
are static: their next process takes their place. A member may leave, its process may end without a
word (either way the next process begins anew), and it may rest in the middle of its work for longer
than its session lasts: it goes on though others have its partitions. When its generation is over it
joins the next one, and asks where to go on for each partition that it is given.

What members are answered is checked by `evidence/group_progress.py`. An offset that comes from a
node which has lost the group's partition without knowing it is not used and not judged: it was
committed while that node led, and may be old.

What a member does with its partitions is the matter of its kind: `Reader` hands out the records and
commits, `copier.py` copies them in transactions.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Final

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.model import OFFSETS_TOPIC
from tidelog.records.batch import decode_body, iter_headers
from tidelog.sim.evidence.group_progress import GroupProgress, SentCommit
from tidelog.sim.report.violation import Violation
from tidelog.sim.workloads.cluster_view import SOURCE_TOPIC, ClusterView, leads_newest, request
from tidelog.sim.workloads.script import (
    AGAIN,
    GROUP,
    TRANSACTION,
    Ask,
    ScriptedClient,
    Steps,
    top_code,
    worst,
)
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.values import error_of, millis

PARTITIONS: Final = 3
"""Of the topic that the groups read."""
SESSION_MS: Final = 2_000
REBALANCE_MS: Final = 1_000
REST_MS: Final = (SESSION_MS, 2 * SESSION_MS)
FETCH_VERSION: Final = 12
FETCH_BYTES: Final = (200, 1 << 20)
NO_GENERATION: Final = -1

OUT: Final = frozenset(
    (
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
    )
)
"""After these a member has to join again."""
FORGOTTEN: Final = frozenset((ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID))
"""After these it has no member id any more."""

Found = list[tuple[int, str]]
"""Records by offset."""


class ClassicMember(ABC):
    """One client, in one process after the other."""

    def __init__(
        self, view: ClusterView, prng: Prng, progress: GroupProgress, is_over: Callable[[], bool]
    ) -> None:
        self._view = view
        self._prng = prng
        self._progress = progress
        # Whether there is nothing left to do.
        self._is_over = is_over
        self._client = ScriptedClient(view, prng, {GROUP: progress.group, TRANSACTION: view.name})
        self._instance_id = view.name if prng.chance(1, 3) else None
        # How many processes there were.
        self._processes = 1
        self._member_id = ""
        self._generation = NO_GENERATION
        # Where it goes on in the partitions that it has; `None` where that must be asked.
        self._positions: dict[int, int | None] = {}
        self._stopped = False

    def start(self) -> None:
        """Begins to live."""
        self._client.run(self._life())

    @property
    def is_settled(self) -> bool:
        """Whether its script has come to its end."""
        return self._client.has_ended

    def stop(self) -> None:
        """From now on it neither leaves nor dies nor rests."""
        self._stopped = True

    @property
    def _owner(self) -> str:
        """Who it is to its partitions: a static member's next process is the same."""
        return self._instance_id or f"{self._view.name}-{self._processes}"

    def _now_and_then(self, among: int) -> bool:
        return not self._stopped and self._prng.chance(1, among)

    def _rest(self) -> Steps[None]:
        if self._now_and_then(25):
            yield self._prng.between(*REST_MS)

    # The script ----------------------------------------------------------------------------

    def _life(self) -> Steps[None]:
        while not self._is_over():
            if self._now_and_then(80):
                self._next_process()
            if self._generation == NO_GENERATION:
                yield from self._join()
            elif self._now_and_then(80):
                yield from self._leave()
            elif (yield from self._beat()) and (yield from self._is_ready()):
                missing = [each for each, at in self._positions.items() if at is None]
                if missing:
                    yield from self._ask_positions(missing)
                else:
                    yield from self._work()
            yield self._client.pause()

    @abstractmethod
    def _is_ready(self) -> Steps[bool]:
        """Whatever must come before it asks where to go on. Returns whether it may."""

    @abstractmethod
    def _work(self) -> Steps[None]:
        """A step of what it does with the partitions that it has."""

    def _next_process(self) -> None:
        self._processes += 1
        self._leave_generation(ErrorCode.UNKNOWN_MEMBER_ID)

    def _leave_generation(self, code: ErrorCode | None) -> None:
        """It joins again, with the same member id if it has one still."""
        self._generation = NO_GENERATION
        self._positions.clear()
        if code in FORGOTTEN:
            self._member_id = ""

    def _take(self, code: ErrorCode | None) -> bool:
        """Whether the coordinator agreed to what a member asked for."""
        if code is ErrorCode.NONE:
            return True
        if code in OUT:
            self._leave_generation(code)
        elif code is not None and code not in AGAIN and not self._is_undecided(code):
            raise Violation("ErrorCodeTruth", f"{self._owner} got {code.name}")
        return False

    def _is_undecided(self, code: ErrorCode) -> bool:
        """Whether a node with an authorizer may have answered before it had any metadata."""
        hosts = self._view.world.hosts.values()
        return code in (
            ErrorCode.UNKNOWN_SERVER_ERROR,
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ) and any(host.config.authorization.authorizer_class for host in hosts)

    @property
    def _who(self) -> dict[str, object]:
        return {
            "group_id": self._progress.group,
            "generation_id": self._generation,
            "member_id": self._member_id,
            "group_instance_id": self._instance_id,
        }

    def _join(self) -> Steps[None]:
        known, process = self._progress.generation, self._processes
        wanted = request(
            ApiKey.JOIN_GROUP,
            5,
            group_id=self._progress.group,
            session_timeout=millis(SESSION_MS),
            rebalance_timeout=millis(REBALANCE_MS),
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            protocol_type="consumer",
            protocols=[{"name": "dealt", "metadata": b""}],
        )
        code, joined, _ = yield from self._client.insist(GROUP, wanted, top_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED and joined is not None:
            self._member_id = joined.member_id
        elif self._take(code) and joined is not None:
            self._member_id, self._generation = joined.member_id, joined.generation_id
            yield from self._sync(joined, known, process)

    def _sync(self, joined: Entity, known: int, process: int) -> Steps[None]:
        members = sorted(each.member_id for each in joined.members)
        turn = self._prng.below(len(members)) if members else 0
        dealt = [
            {
                "member_id": member_id,
                "assignment": bytes(range((at + turn) % len(members), PARTITIONS, len(members))),
            }
            for at, member_id in enumerate(members)
        ]
        wanted = request(ApiKey.SYNC_GROUP, 3, assignments=dealt, **self._who)
        code, response, _ = yield from self._client.insist(GROUP, wanted, top_code)
        if self._take(code) and response is not None:
            partitions = list(bytes(response.assignment))
            self._progress.on_assigned(self._owner, self._generation, partitions, known)
            self._positions = dict.fromkeys(partitions)
        else:
            self._leave_generation(code)

    def _leave(self) -> Steps[None]:
        leaver = {"member_id": self._member_id, "group_instance_id": self._instance_id}
        wanted = request(ApiKey.LEAVE_GROUP, 3, group_id=self._progress.group, members=[leaver])
        self._next_process()
        yield from self._client.insist(GROUP, wanted, top_code)

    def _beat(self) -> Steps[bool]:
        wanted = request(ApiKey.HEARTBEAT, 3, **self._who)
        code, _, _ = yield from self._client.insist(GROUP, wanted, top_code)
        return self._take(code)

    def _ask_positions(self, missing: Collection[int]) -> Steps[None]:
        offsets = yield from committed_offsets(self._client, self._progress, missing)
        for number, offset in offsets.items():
            self._progress.on_committed(number, offset)
            self._positions[number] = max(offset, 0)

    def _read(self, number: int, position: int) -> Steps[Found]:
        """The next records of a partition, which now count as delivered."""
        leader = self._view.leader_of(SOURCE_TOPIC, number)
        row = {
            "partition": number,
            "current_leader_epoch": self._view.epoch_of(SOURCE_TOPIC, number),
            "fetch_offset": position,
            "partition_max_bytes": self._prng.choice(FETCH_BYTES),
        }
        wanted = request(
            ApiKey.FETCH,
            FETCH_VERSION,
            max_wait=millis(20),
            min_bytes=1,
            max_bytes=FETCH_BYTES[1],
            isolation_level=1,
            session_epoch=-1,
            topics=[{"topic": SOURCE_TOPIC, "partitions": [row]}],
            forgotten_topics_data=(),
            rack_id="",
        )
        response = None if leader is None else (yield Ask(leader, wanted))
        part = None if response is None else response.responses[0].partitions[0]
        code = None if part is None else error_of(part.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            raise Violation("NoSpuriousReset", f"{number} at {position} on node {leader}")
        if part is None or code is not ErrorCode.NONE:
            self._view.refresh(lambda: None)
            return []
        found = _records_from(bytes(part.records or b""), position)
        if found:
            self._progress.deliver(number, position, found[-1][0] + 1)
        return found


class Reader(ClassicMember):
    """A member that commits where it is, now and then."""

    def _is_ready(self) -> Steps[bool]:
        yield from ()
        return True

    def _work(self) -> Steps[None]:
        for number, position in list(self._positions.items()):
            assert position is not None, f"{number} has no position"
            found = yield from self._read(number, position)
            if found:
                self._positions[number] = found[-1][0] + 1
        if self._positions and (self._stopped or self._prng.chance(1, 2)):
            yield from self._rest()
            yield from self._commit()

    def _commit(self) -> Steps[None]:
        offsets = {number: at for number, at in self._positions.items() if at is not None}
        rows = [
            {"partition_index": number, "committed_offset": at, "committed_metadata": ""}
            for number, at in offsets.items()
        ]
        who = self._who
        who["generation_id_or_member_epoch"] = who.pop("generation_id")
        wanted = request(
            ApiKey.OFFSET_COMMIT, 8, topics=[{"name": SOURCE_TOPIC, "partitions": rows}], **who
        )
        sent = [self._progress.send(number, at, self._generation) for number, at in offsets.items()]
        code, _, in_doubt = yield from self._client.insist(
            GROUP, wanted, lambda found: worst(row.error_code for row in found.topics[0].partitions)
        )
        self._settle(sent, code, in_doubt=in_doubt)
        self._take(code)

    def _settle(
        self, sent: Collection[SentCommit], code: ErrorCode | None, *, in_doubt: bool
    ) -> None:
        for each in sent:
            if code is ErrorCode.NONE:
                self._progress.acknowledge(each)
            elif code is not None and not in_doubt:
                self._progress.refuse(each)


def committed_offsets(
    client: ScriptedClient, progress: GroupProgress, partitions: Collection[int]
) -> Steps[dict[int, int]]:
    """The offsets of a group that are stable (-1 for none), if its present coordinator says so."""
    topics = [{"name": SOURCE_TOPIC, "partition_indexes": tuple(partitions)}]
    wanted = request(
        ApiKey.OFFSET_FETCH, 7, group_id=progress.group, topics=topics, require_stable=True
    )
    code, response, _ = yield from client.insist(GROUP, wanted, top_code)
    node_id = client.coordinators.get(GROUP)
    if code is not ErrorCode.NONE or response is None or node_id is None:
        return {}
    if not leads_newest(client.view.world, node_id, OFFSETS_TOPIC, progress.group):
        client.coordinators.pop(GROUP)
        return {}
    return {
        row.partition_index: int(row.committed_offset)
        for row in response.topics[0].partitions
        if error_of(row.error_code) is ErrorCode.NONE
    }


def _records_from(data: bytes, position: int) -> Found:
    """The whole records of an answer, from a position on."""
    found: Found = []
    for place, header in iter_headers(data):
        if place + header.size_bytes > len(data):
            break
        found += [
            (record.offset, (record.value or b"").decode())
            for record in decode_body(data, place, header)
            if record.offset >= position
        ]
    return found
