"""Repair: what is kept of a damaged log."""

from tests.unit.log.harness import PARTITION, TOPIC_ID, LogBench
from tidelog.config import LogConfig
from tidelog.errors import LogDamaged
from tidelog.log.pieces import finish


def test_what_a_repair_keeps_is_durable_before_it_is_claimed() -> None:
    """Goal: the flushes that were under way are skipped when the damaged log is closed.
    Method: damage is met in the newest segment, it is cut, and the power goes."""
    bench = LogBench(LogConfig(segment_bytes=200))
    bench.append(count=2)
    bench.log.request_flush()
    bench.settle()
    for _ in range(5):
        bench.append(count=2)
    last = bench.log.segments[-1].base_offset
    bench.directory.quarantine(PARTITION, LogDamaged("a bad batch", last))
    bench.settle()
    log = finish(bench.directory.repaired(PARTITION, TOPIC_ID, bench.config))
    assert log.recovery_point == log.log_end_offset == last > 0
    bench.settle()
    assert bench.reopen_after_power_cut().log_end_offset == last
    assert not bench.directory.damaged
