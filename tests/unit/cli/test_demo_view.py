"""The demo's table of partitions."""

import io

from rich.console import Console

from tidelog.cli.demo_view import partition_table
from tidelog.client.core.descriptions import (
    PartitionDescription,
    ReplicaDescription,
    TopicDescription,
)


def test_every_replica_shows_its_own_log_end_and_high_watermark():
    partition = PartitionDescription(
        partition=0,
        leader=2,
        leader_epoch=5,
        replicas=(1, 2, 3),
        isr=(3, 2),
        eligible_leaders=(),
        offline=(1,),
        replica_logs=(
            ReplicaDescription(1),
            ReplicaDescription(2, 0, 90, 100),
            ReplicaDescription(3, 0, -1, 95),
        ),
    )
    leaderless = PartitionDescription(1, -1, 6, (1, 2), (), (), (1, 2))
    table = partition_table(
        TopicDescription("flights", "id", False, (partition, leaderless)), [1, 2, 3]
    )
    out = io.StringIO()
    Console(file=out, width=120).print(table)
    rows = [
        [cell.strip() for cell in line.strip("│┃").replace("┃", "│").split("│")]
        for line in out.getvalue().splitlines()
        if line.startswith(("│", "┃"))
    ]
    assert rows == [
        [
            "partition",
            "leader",
            "epoch",
            "ISR",
            *(f"node {node_id}: end / hw" for node_id in (1, 2, 3)),
        ],
        ["0", "2", "5", "2,3", "-", "100 / 90", "95 / 0"],
        ["1", "none", "6", "", "-", "-", "-"],
    ]
