"""Quorums whose voters are of both kinds: fixed ones, and ones that come and go while it runs.

Nodes 1 and 3 are Kafka's, node 2 is ours; each is a controller and a broker.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.interop.items import SETTINGS, Trio
from tests.interop.java_tools import run_tool
from tests.interop.kafka_node import format_node
from tests.interop.mixed import Mixed
from tests.interop.prepare import KAFKA_JARS
from tests.interop.records import WAIT_S, values_of
from tidelog.model import ZERO_UUID, uuid_to_text
from tidelog.testing.waiting import wait_until

OURS: Final = 2
ALL: Final = (1, 2, 3)
NONE: Final = uuid_to_text(ZERO_UUID)
_VOTERS: Final = re.compile(r"controller\.quorum\.voters=(\S+)")
_DIRECTORY: Final = re.compile(r"directory\.id=(\S+)")
MOST_CHANGES: Final = 8


class Quorum(Trio):
    """Three controllers; with `dynamic`, only node 1 is a voter at first."""

    def __init__(
        self,
        place: Path,
        jars: Path = KAFKA_JARS,
        features: Sequence[str] = (),
        dynamic: bool = False,
    ) -> None:
        Mixed.__init__(self, place, jars, nodes=3, voters=ALL, more_properties=SETTINGS)
        for node_id in ALL:
            text = self.file(node_id).read_text()
            joins: tuple[str, ...] = ()
            if dynamic:
                servers = re.sub(r"\d@", "", _found(_VOTERS, text))
                text = _VOTERS.sub(f"controller.quorum.bootstrap.servers={servers}", text)
                joins = ("--standalone",) if node_id == 1 else ("--no-initial-controllers",)
            format_node(self.file(node_id), text, *features, jars=jars, more=joins)

    def start_both_kinds(self) -> None:
        """All that do not run."""
        self.start_all(self.start_kafka)

    def leader(self) -> int:
        """Of the quorum."""
        with self.asking() as admin:
            return admin.describe_quorum().leader_id

    def voters(self) -> list[int]:
        """Of the quorum."""
        with self.asking() as admin:
            return sorted(voter.node_id for voter in admin.describe_quorum().voters)

    def lead_with(self, ours: bool) -> None:
        """Stops leaders until one of this kind leads, with records written under each."""
        for _ in range(MOST_CHANGES):
            leader = self.leader()
            if (leader == OURS) == ours:
                return
            self.stop(leader)
            self._wait_for_another(leader)
            self.start_both_kinds()
        raise AssertionError(f"node {self.leader()} leads after {MOST_CHANGES} changes")

    def _wait_for_another(self, former: int) -> None:
        wait_until(lambda: self.leader() not in (-1, former), WAIT_S, "another leader")


def _found(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    assert match is not None, text
    return match[1]


def keep_fixed_voters(q: Quorum) -> None:
    """Each kind leads the quorum, and ends. Either names no directories of fixed voters."""
    q.start_both_kinds()
    q.create("votes", [1, 2, 3])
    q.send("votes", range(100))
    for number, ours in enumerate((True, False, True), 1):
        q.lead_with(ours)
        q.create(f"under-{number}", [3, 2, 1])
        q.send("votes", range(100 * number, 100 * (number + 1)))
        with q.asking() as admin:
            assert {voter.directory_id for voter in admin.describe_quorum().voters} == {NONE}
    assert values_of(q.servers, "votes", 1) == list(range(400))
    wait_until(lambda: q.voters() == [1, 2, 3], WAIT_S, "three voters")
    q.wait_for_equal_segments("votes")


def change_voters(q: Quorum) -> None:
    """Kafka's leader takes our controller in, ours leads and removes Kafka's, and takes it back."""
    q.start_both_kinds()
    assert q.voters() == [1]
    q.run_ours("quorum", "add-controller", str(q.file(OURS)), "--bootstrap-server", q.servers)
    add(q, 3)
    wait_until(lambda: q.voters() == [1, 2, 3], WAIT_S, "three voters")
    q.create("votes", [1, 2, 3])
    q.lead_with(ours=True)
    remove(q, 3)
    wait_until(lambda: q.voters() == [1, 2], WAIT_S, "two voters")
    add(q, 3)
    wait_until(lambda: q.voters() == [1, 2, 3], WAIT_S, "three voters again")
    q.lead_with(ours=False)
    remove(q, OURS)
    wait_until(lambda: q.voters() == [1, 3], WAIT_S, "our voter is out")
    q.send("votes", range(100))
    assert values_of(q.servers, "votes", 1) == list(range(100))


def add(q: Quorum, node_id: int) -> None:
    """Kafka's tool, which reads the new controller's properties and directory."""
    arguments = ("--command-config", str(q.file(node_id)), "add-controller")
    _insist(q, node_id, "--bootstrap-server", q.servers, *arguments)


def remove(q: Quorum, node_id: int) -> None:
    """Kafka's tool."""
    properties = (q.data(node_id) / "meta.properties").read_text()
    directory = _found(_DIRECTORY, properties)
    arguments = ("--controller-id", str(node_id), "--controller-directory-id", directory)
    _insist(q, node_id, "--bootstrap-server", q.servers, "remove-controller", *arguments)


def _insist(q: Quorum, node_id: int, *arguments: str) -> None:
    """Until the voters have changed: the tool gives up when the leader changes meanwhile."""
    before = q.voters()

    def changed() -> bool:
        if (node_id in q.voters()) == (node_id in before):
            with suppress(AssertionError):
                run_tool("MetadataQuorumCommand", *arguments, jars=q.jars)
        return (node_id in q.voters()) != (node_id in before)

    wait_until(changed, WAIT_S, f"a change of voter {node_id}")


VOTERS: Final[dict[str, tuple[Callable[[Quorum], None], bool]]] = {
    "fixed voters of both kinds, each leads": (keep_fixed_voters, False),
    "voters of either kind added and removed": (change_voters, True),
}
"""What is tried, and whether voters change."""
