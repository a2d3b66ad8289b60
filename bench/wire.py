"""Requests as clients write them, for benches that must know what each of them takes."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.differential.sides import Side
from tests.differential.steps import Step

from tidelog.testing.waiting import wait_until
from tidelog.wire.api import ApiKey as K

_READY_S: Final = 90
_NO_EXTRAS: Final = {
    "allow_auto_topic_creation": False,
    "include_topic_authorized_operations": False,
}


class Wire:
    """Requests to the nodes of a cluster by id, on as many connections as are wanted."""

    def __init__(self, bootstrap: str) -> None:
        self._numbers = 0
        self._sides: dict[int, Side] = {}
        for address in bootstrap.split(","):
            side = Side(address)
            rows = self._metadata(side)["brokers"]
            for row in rows:
                if f"{row['host']}:{row['port']}" == address:
                    self._sides[row["node_id"]] = side

    def _metadata(self, side: Side) -> Any:
        return side.ask(self._step(K.METADATA, 12, topics=(), **_NO_EXTRAS))

    def _step(self, key: K, version: int, slot: int = 0, **body: Any) -> Step:
        self._numbers += 1
        return Step(self._numbers, slot, int(key), version, body)

    def ask(self, node_id: int, key: K, version: int, slot: int = 0, **body: Any) -> Any:
        """One answer."""
        return self._sides[node_id].ask(self._step(key, version, slot, **body))

    def ask_all(self, asked: Sequence[tuple[int, int, K, int, Mapping[str, Any]]]) -> list[Any]:
        """Answers to (node, slot, API, version, body), all of them under way at once."""
        steps = []
        for node_id, slot, key, version, body in asked:
            step = self._step(key, version, slot, **body)
            self._sides[node_id].send(step, "")
            steps.append((self._sides[node_id], step))
        answers = []
        for side, step in steps:
            while step.slot in side.under_way:
                side.receive(step.slot)
            answers.append(side.answers.pop(step.number))
        return answers

    def coordinators(self, groups: Sequence[str], without: int = -1) -> dict[str, int]:
        """The node of each group's coordinator, as soon as all have one."""
        found: dict[str, int] = {}

        def ready() -> bool:
            node_id = next(one for one in self._sides if one != without)
            asked = {"key_type": 0, "coordinator_keys": groups}
            answer = self.ask(node_id, K.FIND_COORDINATOR, 6, **asked)
            for row in answer["coordinators"]:
                if row["error_code"] == 0 and row["node_id"] != without:
                    found[row["key"]] = row["node_id"]
            return len(found) == len(groups)

        wait_until(ready, _READY_S, "coordinators")
        return found

    def end(self, node_id: int, slot: int) -> None:
        """Ends one connection, as the kernel does for a process that dies."""
        self._sides[node_id].end(slot)

    def close(self) -> None:
        """Ends all connections."""
        for side in self._sides.values():
            side.close()


def commit_of(group: str, topic: str, partitions: Sequence[int], offset: int) -> dict[str, Any]:
    """The body of an OffsetCommit by a client without a generation."""
    rows = [
        {
            "partition_index": index,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        for index in partitions
    ]
    return {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": topic, "partitions": rows}],
    }
