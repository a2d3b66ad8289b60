"""Groups of real consumers: every record at least once, and offsets that never go back.

Five processes of each client read one topic as a group. One leaves, one is killed, one comes back,
and the coordinator is killed, while records keep coming. Each process reports which partitions it
has and for how long: no two have one at the same time. Clients of other languages do the same in
`tests/interop/test_foreign_groups.py`.
"""

import sys

import pytest

from tests.process.group_member import FOR_MIGRATION, RUN
from tests.process.group_reading import (
    GROUP,
    PARTITIONS,
    PATIENCE_S,
    TOPIC,
    Reading,
    read_through_deaths,
)
from tidelog.client import AdminClient
from tidelog.testing import LocalCluster
from tidelog.testing.waiting import wait_until

pytestmark = pytest.mark.process


def member_command(client: str) -> list[str]:
    return [sys.executable, "-m", "tests.process.group_member", client]


@pytest.mark.parametrize("client", RUN)
def test_a_group_reads_everything_through_deaths_of_all_kinds(tmp_path, client):
    with LocalCluster(brokers=3, data_dir=tmp_path / "cluster") as cluster:
        read_through_deaths(cluster, client, member_command)


def test_a_running_group_goes_to_the_consumer_protocol_and_back(tmp_path):
    """Its processes are replaced one by one."""
    old, new = FOR_MIGRATION
    with LocalCluster(brokers=1, data_dir=tmp_path / "cluster") as cluster:
        cluster.create_topic(TOPIC, partitions=PARTITIONS)
        reading = Reading(cluster, old, member_command)
        members = reading.members

        def read_as(group_type: str, count: int) -> None:
            with AdminClient([cluster.bootstrap_servers]) as admin:

                def settled() -> bool:
                    # Before the first member comes there is no group.
                    if GROUP not in {each.group_id for each in admin.groups.list()}:
                        return False
                    found = admin.groups.describe(GROUP)
                    return (found.group_type, len(found.members)) == (group_type, count)

                wait_until(settled, PATIENCE_S, f"{group_type} group of {count}")
            reading.read_all(f"{group_type} group of {count}")

        try:
            for client in (old, old):
                members.add(client)
            read_as("classic", 2)
            for client in (new, new, old, old):
                members.add(client)
                read_as("consumer", 3)
                members.dismiss()
                is_back = members.clients == [old, old]
                read_as("classic" if is_back else "consumer", 2)
        finally:
            members.end()
        reading.check()
