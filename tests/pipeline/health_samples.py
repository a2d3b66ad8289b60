"""Events by hand: a history of two partitions, with clocks that make the figures round."""

from typing import Any

FIRST_US = 1_700_000_000_000_000
"""Wall time at which the monotonic clock of the sample was zero."""


def event(
    broker: int,
    seq: int,
    kind: str,
    ms: float,
    *,
    partition: int | None = 0,
    epoch: int | None = None,
    clock: str = "one",
    **payload: Any,
) -> dict[str, Any]:
    """One event `ms` after the beginning, by broker `broker` in its first life."""
    us = int(ms * 1000)
    return {
        "ts_us": FIRST_US + us,
        "mono_us": us,
        "clock": clock,
        "broker": broker,
        "incarnation": f"life-{broker}",
        "seq": seq,
        "topic": None if partition is None else "orders",
        "partition": partition,
        "leader_epoch": epoch,
        "kind": kind,
        "payload": payload,
    }


def state(isr: list[int], old_isr: list[int], version: int, **more: Any) -> dict[str, Any]:
    """The payload of a controller's change of a partition of three replicas."""
    return {
        "topic_id": "T",
        "partition_epoch": version,
        "isr": isr,
        "old_isr": old_isr,
        "replicas": [1, 2, 3],
        "min_isr": 2,
        **more,
    }


def sample_events() -> list[dict[str, Any]]:
    """Broker 3 is the controller. Broker 1 leads partition 0 and dies; 2 takes over; 1 returns.

    Partition 1 is led by broker 2 on a machine with another clock; it loses all replicas and gets
    a leader that never commits anything.
    """
    return [*_broker_1_dies(), *_broker_1_returns(), *_partition_1_commits_nothing()]


def _broker_1_dies() -> list[dict[str, Any]]:
    return [
        event(1, 1, "leading", 10, epoch=0, epoch_start=0, high_watermark=0, isr=[1, 2, 3]),
        event(1, 2, "append", 100, epoch=0, required=5, high_watermark=0),
        event(
            1,
            3,
            "hw_advance",
            104,
            epoch=0,
            high_watermark=5,
            log_end=9,
            required=5,
            followers=[2, 3],
            log_ends=[5, 9],
        ),
        event(1, 4, "append", 200, epoch=0, required=12, high_watermark=5),
        event(3, 1, "lost_contact", 1000, partition=None, node=1),
        event(
            3,
            2,
            "election",
            1500,
            epoch=1,
            leader=2,
            old_leader=1,
            cause="broker 1 fenced: silent",
            reason="from isr",
            **state([2, 3], [1, 2, 3], 7),
        ),
        event(3, 3, "fenced", 1501, partition=None, node=1, reason="silent"),
    ]


def _broker_1_returns() -> list[dict[str, Any]]:
    return [
        event(2, 1, "leading", 1520, epoch=1, epoch_start=12, high_watermark=9, isr=[2, 3]),
        event(
            2,
            2,
            "hw_stall",
            1700,
            reason="replicas lack records",
            for_ms=100,
            followers=[3],
            log_ends=[9],
            high_watermark=9,
        ),
        event(
            2,
            3,
            "hw_advance",
            1800,
            epoch=1,
            high_watermark=12,
            log_end=12,
            followers=[1, 3],
            log_ends=[-1, 12],
        ),
        event(
            2,
            4,
            "fetch_lag",
            3000,
            epoch=1,
            log_end=20,
            followers=[1],
            log_ends=[-1],
            level_ms_ago=[-1],
        ),
        event(
            2,
            5,
            "fetch_lag",
            4000,
            epoch=1,
            log_end=20,
            followers=[1],
            log_ends=[12],
            level_ms_ago=[2000],
        ),
        event(
            3,
            4,
            "isr_change",
            7500,
            epoch=1,
            leader=2,
            old_leader=2,
            cause="leader 2 found 1 caught up",
            reason="",
            **state([2, 3, 1], [2, 3], 8),
        ),
    ]


def _partition_1_commits_nothing() -> list[dict[str, Any]]:
    return [
        event(
            3,
            5,
            "election",
            8000,
            partition=1,
            epoch=4,
            leader=-1,
            old_leader=2,
            cause="broker 2 fenced: silent",
            reason="no valid leader",
            **state([], [2], 20),
        ),
        event(
            3,
            6,
            "election",
            9000,
            partition=1,
            epoch=5,
            leader=1,
            old_leader=-1,
            cause="broker 1 unfenced",
            reason="from elr",
            **state([1], [], 21),
        ),
        event(
            1,
            5,
            "leading",
            50_000,
            partition=1,
            epoch=5,
            clock="two",
            epoch_start=3,
            high_watermark=3,
            isr=[1],
        ),
    ]
