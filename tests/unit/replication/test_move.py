"""Moves in any order with all else: what was durable outlives a crash, and a move ends.

Method: a generator draws appends, flushes, cuts, later log starts, moves that begin, turn round or
wait for the metadata, checkpoints, and deaths of the process and of the machine, of which some
disks have done what they were asked for and others have not. A seed is one order of all that.
"""

from collections.abc import Callable

import pytest

from tests.unit.log.harness import PARTITION, TOPIC_ID
from tests.unit.replication.move_bench import MoveBench
from tidelog.env.effects import OnDisk
from tidelog.env.prng import Prng
from tidelog.log.state import UNCUT
from tidelog.model import ZERO_TOPIC_ID
from tidelog.replication import moves


class RandomMoves(MoveBench):
    """A replica that is moved, and what becomes of it otherwise."""

    def __init__(self, seed: int) -> None:
        self.prng = Prng(seed)
        # Whether the last crash has left records that must be there.
        self.is_owed = False
        super().__init__()

    def host(self) -> None:
        """As the node does: a log of which nothing was durable may be gone, and is made anew."""
        directories = self.env.directories
        assert not directories.damaged
        directories.settle(PARTITION, TOPIC_ID, self.said)
        log = directories.logs.get(PARTITION)
        if log is None:
            assert not self.is_owed and not directories.has_lost_original(PARTITION, self.said)
            directories.create(PARTITION, TOPIC_ID, self.config, self.said)
        elif log.topic_id == ZERO_TOPIC_ID:
            log.assign_topic_id(TOPIC_ID)
        super().host()

    def step(self) -> None:
        """Something happens."""
        often: tuple[Callable[[], None], ...] = (self.some_turns,) * 12 + (self.some_records,) * 4
        once = (self.cut, self.begin_later, self.save, self.wait, self.tick, self.die, self.die)
        self.prng.choice((*often, *(self.move,) * 3, self.log.request_flush, *once))()  # type: ignore[operator]
        self.log.check()

    def some_records(self) -> None:
        self.append(self.prng.between(1, 8))

    def some_turns(self) -> None:
        self.turns(self.prng.between(1, 4))

    def move(self) -> None:
        self.request(self.prng.below(3))

    def wait(self) -> None:
        self.obeys = not self.obeys

    def save(self) -> None:
        directory = self.prng.choice(list(self.env.directories.online.values()))
        self.prng.choice(
            (
                directory.checkpoint_recovery_points,
                directory.checkpoint_log_start_offsets,
                directory.checkpoint_high_watermarks,
            )
        )()

    def begin_later(self) -> None:
        log = self.log
        if log.high_watermark > log.log_start_offset:
            start = self.prng.between(log.log_start_offset, log.high_watermark)
            log.maybe_raise_log_start_offset(start)

    def cut(self) -> None:
        """As a follower cuts: the checkpoints first, also below its log start."""
        log, directory = self.log, self.env.directories.of(PARTITION)
        assert directory is not None
        log.announced_end = self.prng.between(max(0, log.log_start_offset - 3), log.log_end_offset)
        directory.checkpoint_recovery_points()
        self.carry_out()
        log.truncate_to(log.announced_end)
        log.announced_end = UNCUT
        directory.checkpoint_log_start_offsets()
        self.carry_out()
        self.begin_term()

    def die(self) -> None:
        """The process, or the machine; some disks have done what they were asked for."""
        power_cut, awake = self.prng.chance(1, 2), {n for n in range(3) if self.prng.chance(1, 2)}
        for effect in self.effects.take():
            if (effect.disk if isinstance(effect, OnDisk) else 0) in awake:
                self.effects.emit(effect)
        self.carry_out()
        log = self.log
        start, durable_end = log.log_start_offset, log.recovery_point
        end = durable_end if power_cut else log.log_end_offset
        owed = [each for each in self.records if each.offset < end]
        self.is_owed = bool(owed)
        self.restart(self.prng, power_cut=power_cut)
        # Of a log that was never flushed anything may be gone, its beginning too.
        assert self.log.log_start_offset <= start or (power_cut and not durable_end)
        assert self.log.log_end_offset >= end
        found = {each.offset: each for each in self.records}
        assert [found.get(each.offset) for each in owed] == owed
        self.log.update_high_watermark(self.log.log_end_offset)


@pytest.mark.parametrize("seed", range(40))
def test_nothing_durable_is_lost_and_each_move_ends(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(moves, "MOVE_BYTES_PER_TURN", 500)
    bench = RandomMoves(seed)
    for _ in range(bench.prng.between(20, 60)):
        bench.step()
    bench.obeys = True
    expected, place = bench.records, bench.prng.below(3)
    bench.turns(30)
    # A former disk takes the replica once it has forgotten it.
    for _ in range(3):
        bench.request(place)
        bench.turns(60)
    # What no one copy has is set aside, for a person to look at.
    is_aside = any("stray" in name for number in range(3) for name in bench.names(number))
    assert bench.ends_on(place) or is_aside
    assert bench.records == expected
