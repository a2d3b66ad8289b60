"""A round of cleaning of one log, against a model."""

import pytest

from tests.unit.log.cleaning.bench import (
    CleaningBench,
    check_same,
    committed_records,
    draw_history,
    full,
    sequences_of,
)
from tests.unit.log.cleaning.random_rounds import RandomRounds
from tests.unit.log.harness import PARTITION, LogBench, read_all
from tidelog.env.prng import Prng
from tidelog.log.checkpoint import CLEANER_FILE, encode_offsets
from tidelog.log.cleaning.offset_map import OffsetMap
from tidelog.log.log import Log
from tidelog.records.batch import build_batch, iter_headers
from tidelog.records.record import Record
from tidelog.replication.follower import where_to_agree


@pytest.mark.parametrize("seed", range(40))
def test_a_cleaned_log_says_the_same(seed: int) -> None:
    """Plain, idempotent and transactional batches of all codecs; several rounds, with maps of
    drawn sizes; then a start without producer snapshots."""
    prng = Prng(seed)
    bench = CleaningBench(segment_bytes=prng.choice((400, 700, 3000)))
    tombstones_may_go = False
    for _ in range(prng.between(1, 4)):
        draw_history(bench, prng, prng.between(10, 60))
        bench.commit_all()
        log = bench.log
        before, bounds = committed_records(log), (log.last_stable_offset, log.log_end_offset)
        sequences = sequences_of(log)
        while bench.clean(keys=prng.choice((3, 20, 1000))) and prng.chance(1, 2):
            bench.wall_ms += prng.choice((1, 2000))
            tombstones_may_go = True
        assert log.cleaned_to <= log.last_stable_offset
        check_same(
            before, committed_records(log), cleaned_to=log.cleaned_to, may_bury=tombstones_may_go
        )
        bench.wall_ms += prng.choice((1, 2000))
        tombstones_may_go = True
        log.verify()
        assert (log.last_stable_offset, log.log_end_offset) == bounds
        kept = committed_records(log)
        for name in bench.disk.list_dir(str(PARTITION)):
            if name.endswith(".snapshot") and prng.chance(1, 2):
                bench.disk.delete(f"{PARTITION}/{name}")
        log = bench.reopen_cleanly() if prng.chance(1, 2) else bench.reopen_after_power_cut(prng)
        log.reconfigure(bench.config)
        assert (log.last_stable_offset, log.log_end_offset) == bounds
        assert committed_records(log) == kept
        assert (
            sequences_of(log).items()
            >= {producer: state for producer, state in sequences.items() if state[1] >= 0}.items()
        )


@pytest.mark.parametrize("seed", range(10))
def test_marks_say_what_keys_say(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of one layout and others, beyond the last mark too: a cleaner that looks up every key
    leaves the same bytes."""

    def cleaned() -> list[bytes]:
        prng = Prng(seed)
        bench = CleaningBench(segment_bytes=6000)
        for _ in range(40):
            tombstones = prng.chance(1, 5)
            value_bytes = prng.choice((20, 20, prng.between(1, 90)))
            pairs = [
                (b"%03d" % prng.below(150), None if tombstones else b"v" * value_bytes)
                for _ in range(prng.choice((1, 12, 40)))
            ]
            bench.put(*pairs, codec=prng.choice((0, 0, 1)))
        full(bench, 1)
        assert bench.clean(keys=prng.choice((60, 1000)))
        return [batch.data for segment in bench.log.segments for batch in segment.batches.scan()]

    with_marks = cleaned()
    monkeypatch.setattr(OffsetMap, "marks_of", lambda *_: None)
    assert with_marks == cleaned()


@pytest.mark.parametrize("seed", range(20))
def test_a_cut_in_the_middle_of_a_round(seed: int) -> None:
    """Of the cleaned part: what is left of the log is what was there, cleaned or not."""
    prng = Prng(seed)
    bench = CleaningBench()
    draw_history(bench, prng, 40)
    bench.commit_all()
    log = bench.log
    before = committed_records(log)
    cut = log.segments[1].base_offset
    steps = prng.below(60)

    def maybe_cut() -> None:
        nonlocal steps
        steps -= 1
        if steps == 0:
            log.truncate_to(cut)

    bench.clean(between=maybe_cut)
    log.check()
    if steps <= 0:
        assert (log.cleaning, log.log_end_offset) == (None, cut)
        assert log.cleaned_to <= cut
        assert set(committed_records(log)) <= {one for one in before if one[0] < cut}
    log.verify()
    bench.put((b"next", b"v"))
    names = bench.disk.list_dir(str(PARTITION))
    assert not [name for name in names if name.endswith((".cleaned", ".swap"))]


def test_small_segments_become_one() -> None:
    """As many as fit; offsets stay where they are."""
    bench = CleaningBench(segment_bytes=700)
    for number in range(120):
        bench.put((b"key-%d" % (number % 5), b"%d" % number))
    full(bench, 1)
    count = len(bench.log.segments)
    assert bench.clean() and len(bench.log.segments) == count
    full(bench, 2)
    assert bench.clean() and len(bench.log.segments) < count // 2
    found = bench.log.read(10, 1 << 20, bench.log.log_end_offset, at_least_one=True)
    headers = [header for _, header in iter_headers(b"".join(map(bytes, found.chunks)))]  # type: ignore[arg-type]
    assert headers[0].base_offset > 40


def test_an_abort_before_the_dirty_part_is_over() -> None:
    """The next transaction of that producer was taken for aborted, so old values of its keys
    stayed."""
    bench = CleaningBench(segment_bytes=10_000)
    bench.put((b"k", b"old"))
    bench.put((b"k", b"aborted"), producer=3, txn=1)
    bench.end(3, commit=False)
    bench.put((b"k", b"new"), producer=3, txn=1)
    bench.end(3, commit=True)
    full(bench, 1)
    bench.log.cleaned_to = 3
    assert bench.clean()
    found = [one[2] for one in committed_records(bench.log) if one[1] == b"k"]
    assert found == [b"new"]


@pytest.mark.parametrize("commits", [False, True])
def test_an_abort_that_is_not_committed_takes_nothing(commits: bool) -> None:
    """A leader change may cut the marker and bring a commit in its place (seed cluster all
    504148291). Method: the transaction and its marker are in a segment that is cleaned in part."""
    bench = CleaningBench(segment_bytes=10_000)
    for value in (b"older", b"old", b"new"):
        bench.put((b"k", value))
    begun = bench.put((b"t", b"undecided"), producer=3, txn=1)
    bench.end(3, commit=False)
    bench.put((b"filler", b"x"))
    bench.roll()
    bench.put((b"last", b"x"))
    bench.log.update_high_watermark(begun + 1)
    bench.log.request_flush()
    bench.settle()
    assert bench.log.last_stable_offset == begun
    assert bench.clean()
    assert bench.log.cleaned_to == begun
    assert b"undecided" in read_all(bench.log) and b"older" not in read_all(bench.log)
    if not commits:
        # The marker is committed after all, and the transaction is still known to be aborted.
        bench.commit_all()
        assert b"t" not in [one[1] for one in committed_records(bench.log)]
        return
    bench.log.truncate_to(begun + 1)
    bench.end(3, commit=True)
    bench.log.update_high_watermark(bench.log.log_end_offset)
    assert [one[2] for one in committed_records(bench.log) if one[1] == b"t"] == [b"undecided"]


@pytest.mark.parametrize("saved", [encode_offsets({PARTITION: 1_000_000}), b"0\n1\norders"])
def test_a_checkpoint_that_cannot_be_right_counts_for_nothing(saved: bytes) -> None:
    """One of a former log of that name, which was longer, or a damaged one: the log is cleaned from
    its start, as by Kafka."""
    bench = CleaningBench()
    for number in range(40):
        bench.put((b"k", b"%d" % number))
    full(bench, 1)
    bench.stop()
    bench.disk.replace(CLEANER_FILE, saved)
    bench.reopen().reconfigure(bench.config)
    assert bench.clean()
    assert [one[2] for one in committed_records(bench.log) if one[1] == b"k"] == [b"39"]


def test_a_hole_up_to_the_end_counts_as_looked_at() -> None:
    """Seed 25141579: a follower that knew of less committed offsets than its leader's cleaner had
    removed. Its rounds ended where they began, and one followed the other without an end."""
    bench = CleaningBench()
    bench.log.note_gaps()
    for base_offset in (7, 8):
        record = Record(bench.wall_ms, b"k", b"v")
        bench.log.append_as_follower(build_batch([record], base_offset=base_offset), 0)
        bench.roll()
    bench.commit_all()
    before = read_all(bench.log)
    bench.log.high_watermark = 5
    assert bench.clean() and bench.log.cleaned_to == 5
    assert not bench.begin()
    assert read_all(bench.log) == before


def follower_of(log: Log) -> Log:
    """A new replica that has fetched all of a log."""
    follower = LogBench().log
    follower.truncate_fully_and_start_at(log.log_start_offset)
    follower.append_as_follower(read_all(log), log.latest_epoch)
    assert follower.log_end_offset == log.log_end_offset
    return follower


def test_a_follower_learns_where_epochs_began_from_a_cleaned_log() -> None:
    """The first records of epoch 3 were compacted away, and a follower that got the rest believed
    that the epoch began later. When it led, a replica that came back with records of epoch 2 that
    had never been committed kept them."""
    bench = CleaningBench()
    bench.epoch = 2
    bench.put((b"a", b"0"))
    came_back = follower_of(bench.log)
    for offset in (1, 2):
        stray = build_batch([Record(0, b"a", b"stray")], base_offset=offset, leader_epoch=2)
        came_back.append_as_follower(stray, 2)
    bench.epoch = 3
    for number in range(4):
        bench.put((b"a", b"%d" % number))
    full(bench, 1)
    assert bench.clean()
    assert [one[0] for one in committed_records(bench.log) if one[1] == b"a"] == [4]
    elected = follower_of(bench.log)
    assert elected.epochs.entries == bench.log.epochs.entries == [(2, 0), (3, 1)]
    diverging = elected.end_offset_for_epoch(came_back.latest_epoch)
    assert diverging.end_offset < came_back.log_end_offset
    assert where_to_agree(came_back, diverging) == 1


@pytest.mark.parametrize("seed", range(20))
def test_epochs_of_a_cleaned_log_are_those_of_its_followers(seed: int) -> None:
    """Also where whole segments or single records were deleted, after a cleaning or before it."""
    prng = Prng(seed)
    bench = CleaningBench(segment_bytes=prng.choice((400, 700, 3000)))
    for number in range(prng.between(1, 4)):
        draw_history(bench, prng, prng.between(10, 60))
        full(bench, number)
        log = bench.log
        if prng.chance(1, 3):
            end = max(log.log_start_offset, log.cleaned_to)
            log.maybe_raise_log_start_offset(prng.between(log.log_start_offset, end))
        while bench.clean() and prng.chance(1, 2):
            bench.wall_ms += 2000
        assert follower_of(log).epochs.entries == log.epochs.entries
        log.maybe_raise_log_start_offset(prng.choice(list(log.segments)).base_offset)
        assert follower_of(log).epochs.entries == log.epochs.entries


@pytest.mark.parametrize("announced", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_a_cut_ends_where_a_batch_of_the_cleaned_log_ends(seed: int, announced: bool) -> None:
    """A replacement that was half done was finished by the cut, or between the checkpoint that
    announced it and the cut, which went on with the end of a batch that was gone by then. The next
    start missed what no log had. Method: a cut below the high watermark, as behind an unclean
    election, in each step of a round."""
    for steps in range(1, 200):
        prng = Prng(seed)
        bench = CleaningBench(segment_bytes=3000)
        draw_history(bench, prng, 50)
        bench.commit_all()
        log = bench.log
        cut = prng.between(1, log.segments[1].base_offset)
        assert bench.begin() and bench.round is not None
        for _ in range(steps):
            bench.round.step(50)
            bench.settle()
        if bench.round.is_over:
            assert steps > 5
            return
        if announced:
            cut = log.announced_end = log.end_below(cut)
        else:
            log.truncate_to(cut)
        bench.directory.checkpoint_recovery_points()
        bench.settle()
        while announced and not bench.round.is_over:
            bench.round.step(50)
            bench.settle()
        log.truncate_to(cut)
        end = log.log_end_offset
        assert bench.reopen_after_kill().log_end_offset == end


@pytest.mark.parametrize("seed", range(40))
def test_every_key_has_its_last_value(seed: int) -> None:
    bench = RandomRounds(seed)
    for _ in range(bench.prng.between(30, 150)):
        bench.step()
    bench.crashing.left = None
    bench.check()
    for _ in range(3):
        bench.seal()
        bench.commit_all()
        while bench.clean():
            bench.check()
        bench.wall_ms += 2000
    bench.check()
