"""Scenarios of group coordinators that die: what the next one must know, and must not make up.

Source: KIP-345; KAFKA-10284; Bufstream 0.1 (Jepsen).
"""

from typing import Any

from tidelog.errors import ErrorCode
from tidelog.sim.engine.client import Disconnected, SimClient
from tidelog.sim.regressions.testbed import SmallCluster, Testbed
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of, millis

NAME = "tx"
GROUP, TRANSACTION = 0, 1
WAIT_MS = 200
ATTEMPTS = 100
PASSING = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
"""For these a client asks again."""


class CoordinatorClient:
    """A client of the coordinators of the group and of the transactional id `NAME`."""

    def __init__(self, testbed: Testbed) -> None:
        self.testbed = testbed
        self.world = testbed.world()
        self.cluster = SmallCluster(self.world)

    def live(self) -> list[int]:
        """The nodes that run."""
        return [node_id for node_id, host in self.world.hosts.items() if host.node is not None]

    def coordinator(self, kind: int) -> int:
        """The node that coordinates, once there is one."""
        for _ in range(ATTEMPTS):
            client = SimClient(self.world, self.live()[-1])
            found = client.call(ApiKey.FIND_COORDINATOR, 2, key=NAME, key_type=kind)
            if error_of(found.error_code) is ErrorCode.NONE and found.node_id in self.live():
                return int(found.node_id)
            self.world.run_for(WAIT_MS)
        raise AssertionError("Setup: no coordinator")

    def ask(self, kind: int, key: ApiKey, version: int, **values: Any) -> Any:
        """Asks a coordinator until it is there and has nothing else to do."""
        for _ in range(ATTEMPTS):
            client = SimClient(self.world, self.coordinator(kind))
            found = client.call(key, version, **values)
            if getattr(found, "error_code", None) is None or error_of(found.error_code) not in (
                PASSING
            ):
                return found
            self.world.run_for(WAIT_MS)
        raise AssertionError(f"Setup: {key.name} was not answered")

    def fail_over(self, kind: int) -> None:
        """The coordinator dies and comes back, and another one coordinates meanwhile."""
        former = self.coordinator(kind)
        self.world.kill(former)
        self.world.run_for(3_000)
        self.world.start(former)
        self.world.run_for(2_000)
        self.testbed.must(self.coordinator(kind) != former, "Setup", "the former one coordinates")


def r35_replaced_static_member(testbed: Testbed) -> None:
    """The process that took the place of a static member is a member for the next coordinator too.

    Origin: KAFKA-10284, KAFKA-9752
    Case: a static member assigns to itself; its next process joins and gets its place without a
    rebalance; the group's coordinator dies.
    Must: the next coordinator knows the new process, and fences the former one.
    """
    client = CoordinatorClient(testbed)
    former = _join(client)
    assigned = client.ask(
        GROUP,
        ApiKey.SYNC_GROUP,
        3,
        **_who(former.member_id, former.generation_id),
        assignments=[{"member_id": former.member_id, "assignment": b"all"}],
    )
    assert error_of(assigned.error_code) is ErrorCode.NONE, f"Setup: {assigned}"
    present = _join(client)
    assert present.member_id != former.member_id, f"Setup: {present}"
    client.fail_over(GROUP)
    for member_id, expected in (
        (present.member_id, ErrorCode.NONE),
        (former.member_id, ErrorCode.FENCED_INSTANCE_ID),
    ):
        who = _who(member_id, present.generation_id)
        code = error_of(client.ask(GROUP, ApiKey.HEARTBEAT, 3, **who).error_code)
        testbed.must(code is expected, "MembershipIsDurable", f"{member_id} gets {code.name}")


def _who(member_id: str, generation_id: int) -> dict[str, Any]:
    return {
        "group_id": NAME,
        "generation_id": generation_id,
        "member_id": member_id,
        "group_instance_id": "static",
    }


def _join(client: CoordinatorClient) -> Any:
    found = client.ask(
        GROUP,
        ApiKey.JOIN_GROUP,
        5,
        group_id=NAME,
        session_timeout=millis(30_000),
        rebalance_timeout=millis(30_000),
        member_id="",
        group_instance_id="static",
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}],
    )
    assert error_of(found.error_code) is ErrorCode.NONE, f"Setup: {found}"
    return found


def r37_no_offset_is_made_up(testbed: Testbed) -> None:
    """While coordinators change, a group that has an offset is never answered that it has none.

    Origin: Bufstream 0.1 (Jepsen)
    Case: a group has offset 3; its coordinator dies; a client asks every node for the offset, again
    and again, until the next coordinator has loaded.
    Must: each answer is an error or 3.
    """
    client = CoordinatorClient(testbed)
    row = {"partition_index": 0, "committed_offset": 3, "committed_metadata": ""}
    committed = client.ask(
        GROUP,
        ApiKey.OFFSET_COMMIT,
        7,
        group_id=NAME,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[{"name": "t", "partitions": [row]}],
    )
    code = error_of(committed.topics[0].partitions[0].error_code)
    assert code is ErrorCode.NONE, f"Setup: {code.name}"
    former = client.coordinator(GROUP)
    client.world.kill(former)
    answers = 0
    for _ in range(ATTEMPTS):
        for node_id in client.live():
            code, offset = _offset_at(client, node_id)
            answers += code is ErrorCode.NONE
            is_true = code is not ErrorCode.NONE or offset == 3
            testbed.must(is_true, "NoSpuriousReset", f"node {node_id} answers {offset}")
        client.world.run_for(50)
    testbed.must(answers > 0, "Setup", "no coordinator answered")


def _offset_at(client: CoordinatorClient, node_id: int) -> tuple[ErrorCode, int]:
    topics = [{"name": "t", "partition_indexes": (0,)}]
    asked = {"group_id": NAME, "topics": topics, "require_stable": False}
    try:
        found = SimClient(client.world, node_id).call(ApiKey.OFFSET_FETCH, 7, **asked)
    except Disconnected:
        return ErrorCode.NETWORK_EXCEPTION, -1
    code = error_of(found.error_code)
    if code is not ErrorCode.NONE or not found.topics:
        return code, -1
    row = found.topics[0].partitions[0]
    return error_of(row.error_code), int(row.committed_offset)
