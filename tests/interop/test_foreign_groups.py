"""Groups of clients of other languages, through the deaths that `group_reading` describes.

Java's client and franz-go take part with both group protocols, kafkajs with the only one that it
has. Their programs are in `clients/`; those of Go and Node are where `prepare` could make them.
"""

from pathlib import Path
from typing import Final

import pytest

from tests.interop.families import FranzGo, Java, Kafkajs, families
from tests.interop.java_tools import java_command
from tests.interop.prepare import FRANZ_GO, JAVA, KAFKAJS
from tests.process.group_reading import read_through_deaths
from tidelog.testing import LocalCluster

COMMANDS: Final = {
    Java.name: java_command("GroupMember", beside=[str(JAVA)]),
    FranzGo.name: [str(FRANZ_GO), "member"],
    Kafkajs.name: ["node", str(KAFKAJS / "member.js")],
}
PROTOCOLS: Final = {
    Java.name: ("classic", "consumer"),
    FranzGo.name: ("classic", "consumer"),
    Kafkajs.name: ("classic",),
}
CASES: Final = [
    (family.name, protocol)
    for family in families(Path())
    for protocol in PROTOCOLS.get(family.name, ())
]
QUICK: Final = {
    "group.initial.rebalance.delay.ms": "0",
    # By KIP-848 these are the broker's. On a busy machine franz-go has taken more than six seconds
    # to find the new coordinator, and a member without a session reads on until it knows of it.
    "group.consumer.min.session.timeout.ms": "15000",
    "group.consumer.session.timeout.ms": "15000",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.heartbeat.interval.ms": "300",
}


@pytest.mark.parametrize(("client", "protocol"), CASES)
def test_a_group_of_foreign_clients_reads_everything_through_deaths_of_all_kinds(
    tmp_path: Path, client: str, protocol: str
) -> None:
    """With the timers of production, since members that start take all CPUs for seconds."""
    with LocalCluster(
        brokers=3, data_dir=tmp_path / "cluster", config=QUICK, profile="default"
    ) as cluster:
        read_through_deaths(cluster, protocol, lambda name: [*COMMANDS[client], name])
