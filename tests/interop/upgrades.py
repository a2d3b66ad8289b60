"""The level of metadata goes up while nodes of both kinds run.

A cluster begins one level below what the partner's version can do, under a controller of either
kind. The upgrade is asked of our broker; every node knows the new level, and both kinds go on.
"""

from collections.abc import Callable
from typing import Final

from tests.interop.items import BOTH_WAYS, OURS, SOME, Trio
from tests.interop.records import WAIT_S, values_of
from tidelog.testing.waiting import wait_until

LEVEL: Final = "metadata.version"
NEWEST: Final = {"3.9.1": 21, "4.0.0": 25, "4.1.0": 27, "4.3.1": 30}
"""The level with which each version of Kafka begins when nothing else is asked for."""


def upgrade(t: Trio, controller: Callable[[int], None], newest: int) -> None:
    """From the level below the newest."""
    t.start_all(controller)
    t.create("before", *BOTH_WAYS)
    t.send("before", range(SOME))
    assert levels(t) == {newest - 1}
    t.tool(OURS, "FeatureCommand", "upgrade", "--feature", f"{LEVEL}={newest}")
    wait_until(lambda: levels(t) == {newest}, WAIT_S, "new level at each node")
    t.send("before", range(SOME, 2 * SOME))
    t.create("after", *BOTH_WAYS)
    t.send("after", range(SOME))
    for topic, count in (("before", 2 * SOME), ("after", SOME)):
        assert sorted(values_of(t.servers, topic, 2)) == list(range(count))
        t.wait_for_equal_segments(topic)


def levels(t: Trio) -> set[int]:
    """As each node knows it."""
    found = set()
    for node_id in t.running:
        with t.asking(node_id) as admin:
            features = admin.describe_features(("127.0.0.1", t.ports[node_id]))
        found.add(features.finalised[LEVEL])
    return found
