"""A client without any right tries everything, while nodes fail.

It comes in four ways: without a login, with a password that is wrong, under a name that does not
exist, and as a user without rights. The first three must never get an answer other than those of a
login (`NothingBeforeAuthentication`). The last one must not be granted anything: no answer may have
a row without an error, and no row of data (`AuthorizedFirst`). What it wanted to make must not
exist at the end, and no record of its own may be read.
"""

from dataclasses import fields
from typing import Final

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.limits import MIN_SCRAM_ITERATIONS
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.security.listener_logins import NodeSecrets
from tidelog.sim.engine.client_machine import CLIENT, CONTROLLER_LISTENER, Session
from tidelog.sim.engine.formation import WALL_START_MS
from tidelog.sim.engine.secured import INTRUDER, login_of
from tidelog.sim.engine.world import World
from tidelog.sim.report.violation import Violation
from tidelog.sim.workloads.cluster_view import ClusterView, newest_image, request
from tidelog.wire import codec
from tidelog.wire.acl_values import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.values import error_of, millis

STRANGER: Final = ""
IMPOSTOR: Final = "impostor"
UNKNOWN: Final = "unknown"
WITHOUT_LOGIN: Final = (STRANGER, IMPOSTOR, UNKNOWN)
LOOT: Final = "t-loot"
TIMEOUT_MS: Final = 2_000


class Intruder:
    """One client without rights."""

    def __init__(self, world: World, prng: Prng) -> None:
        self._world = world
        self._prng = prng
        secrets = NodeSecrets.from_seed(prng.next_u64())
        world.clients.logins[IMPOSTOR] = login_of(CLIENT, "a guess", secrets)
        world.clients.logins[UNKNOWN] = login_of(UNKNOWN, "a guess", secrets)
        # One for each way in, by the user of its logins.
        self._views = {
            user: ClusterView(world, f"intruder {user}", prng, TIMEOUT_MS, user)
            for user in (*WITHOUT_LOGIN, INTRUDER)
        }

    def act(self) -> None:
        """Tries one thing in one way."""
        names = sorted(newest_image(self._world).topics_by_name) or [LOOT]
        wanted = self._prng.choice(attempts(self._prng.choice(names), self._world.now))
        user = self._prng.choice((*WITHOUT_LOGIN, INTRUDER, INTRUDER, INTRUDER))

        def answered(answer: Entity | None) -> None:
            if answer is not None:
                self._judge(user, wanted, answer)

        self._views[user].ask(wanted, answered)
        self._knock()

    def _judge(self, user: str, wanted: Entity, answer: Entity) -> None:
        who, api = user or "a stranger", ApiKey(wanted.__api_key__).name
        if user in WITHOUT_LOGIN:
            raise Violation("NothingBeforeAuthentication", f"{who} got an answer to {api}")
        if is_granted(answer):
            raise Violation("AuthorizedFirst", f"{who} was granted {api}: {answer}")

    def _knock(self) -> None:
        """At a controller's door, without a login."""
        hosts = [host for host in self._world.hosts.values() if host.config.is_controller]
        session = Session(
            self._world.clients,
            self._prng.choice(hosts),
            listener=CONTROLLER_LISTENER,
            timeout_ms=TIMEOUT_MS,
            user=STRANGER,
        )
        wanted = request(ApiKey.METADATA, 12, **_ALL_TOPICS)
        wanted = self._prng.choice((wanted, request(ApiKey.DESCRIBE_QUORUM, 1, topics=[])))

        def answered(frame: bytes | None) -> None:
            if frame is not None:
                text = f"a controller answered {ApiKey(wanted.__api_key__).name}"
                raise Violation("NothingBeforeAuthentication", text)
            session.close()

        session.request(codec.encode_request(wanted, 1, "stranger"), answered)

    def judge(self) -> None:
        """At the end: nothing that it wanted is there."""
        image = newest_image(self._world)
        made = [record for record in image.acls.values() if record.principal == f"User:{INTRUDER}"]
        if made or LOOT in image.topics_by_name:
            raise Violation("AuthorizedFirst", f"the intruder has made {made or LOOT}")


_ALL_TOPICS: Final = {
    "topics": None,
    "allow_auto_topic_creation": True,
    "include_topic_authorized_operations": False,
}


def attempts(topic: str, now: int) -> list[Entity]:
    """What it tries with a topic, and with the cluster."""
    return [
        *_with_topic(topic, now),
        *_with_partition(topic),
        *_with_cluster(),
        *_with_names(topic),
    ]


def _with_topic(topic: str, now: int) -> list[Entity]:
    value = f"intruder:{now}".encode()
    records = build_batch([Record(WALL_START_MS + now, None, value, ())])
    row = {"index": 0, "records": records}
    asked = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": 0}
    asked |= {"last_fetched_epoch": -1, "log_start_offset": -1, "partition_max_bytes": 1 << 20}
    return [
        request(ApiKey.METADATA, 12, **_ALL_TOPICS),
        request(
            ApiKey.PRODUCE,
            9,
            transactional_id=None,
            acks=-1,
            timeout=millis(TIMEOUT_MS),
            topic_data=[{"name": topic, "partition_data": [row]}],
        ),
        request(
            ApiKey.FETCH,
            12,
            replica_id=-1,
            max_wait=millis(0),
            min_bytes=0,
            max_bytes=1 << 20,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[{"topic": topic, "partitions": [asked]}],
            forgotten_topics_data=[],
            rack_id="",
        ),
    ]


def _with_partition(topic: str) -> list[Entity]:
    here = {"partition_index": 0}
    return [
        request(
            ApiKey.LIST_OFFSETS,
            7,
            replica_id=-1,
            isolation_level=0,
            topics=[
                {
                    "name": topic,
                    "partitions": [here | {"current_leader_epoch": -1, "timestamp": -1}],
                }
            ],
        ),
        request(
            ApiKey.DELETE_RECORDS,
            2,
            topics=[{"name": topic, "partitions": [here | {"offset": -1}]}],
            timeout=millis(TIMEOUT_MS),
        ),
        request(
            ApiKey.DELETE_TOPICS,
            6,
            topics=[{"name": topic, "topic_id": None}],
            timeout=millis(TIMEOUT_MS),
        ),
        request(
            ApiKey.CREATE_PARTITIONS,
            3,
            topics=[{"name": topic, "count": 9, "assignments": None}],
            timeout=millis(TIMEOUT_MS),
            validate_only=False,
        ),
    ]


def _with_cluster() -> list[Entity]:
    loot = {
        "name": LOOT,
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
    }
    right = {
        "resource_type": ResourceType.CLUSTER,
        "resource_name": CLUSTER_NAME,
        "resource_pattern_type": PatternType.LITERAL,
        "principal": f"User:{INTRUDER}",
        "host": "*",
        "operation": Operation.ALL,
        "permission_type": Permission.ALLOW,
    }
    password = {
        "name": CLIENT,
        "mechanism": 1,
        "iterations": MIN_SCRAM_ITERATIONS,
        "salt": b"salt",
        "salted_password": bytes(32),
    }
    return [
        request(
            ApiKey.CREATE_TOPICS, 7, topics=[loot], timeout=millis(TIMEOUT_MS), validate_only=False
        ),
        request(ApiKey.CREATE_ACLS, 3, creations=[right]),
        request(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=[], upsertions=[password]),
    ]


def _with_names(topic: str) -> list[Entity]:
    config = {"name": "flush.messages", "config_operation": 1, "value": None}
    resource = {"resource_type": 2, "resource_name": topic, "configs": [config]}
    moved = {"partition_index": 0, "replicas": [1]}
    return [
        request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False),
        request(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            0,
            timeout=millis(TIMEOUT_MS),
            topics=[{"name": topic, "partitions": [moved]}],
        ),
        request(ApiKey.DELETE_GROUPS, 2, groups_names=["g1"]),
        request(
            ApiKey.INIT_PRODUCER_ID,
            4,
            transactional_id="tx1",
            transaction_timeout=millis(60_000),
            producer_id=-1,
            producer_epoch=-1,
        ),
        request(
            ApiKey.OFFSET_FETCH,
            8,
            groups=[{"group_id": "g1", "topics": None}],
            require_stable=False,
        ),
    ]


def is_granted(answer: Entity) -> bool:
    """Whether some row of an answer has no error, nor anything around it."""
    return _verdict(answer) is True


def _verdict(entity: Entity) -> bool | None:
    """`None` where neither the entity nor a row of it has a code."""
    code = getattr(entity, "error_code", None)
    if code is not None and error_of(code) is not ErrorCode.NONE:
        return False
    values = [getattr(entity, field.name) for field in fields(entity)]
    rows = [row for value in values if isinstance(value, tuple) for row in value]
    verdicts = [
        verdict
        for row in rows
        if hasattr(row, "__api_key__") and (verdict := _verdict(row)) is not None
    ]
    if verdicts:
        return any(verdicts)
    return None if code is None else True
