"""Each safeguard of replication, taken away: its golden script must turn red.

A script that stays green without the rule that it is about would prove nothing.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.scripts.replication.test_replication_scripts import Interpreter
from tests.scripts.runner import run_script
from tidelog.log.log import Log
from tidelog.replication import (
    fetch_answers,
    fetch_reading,
    fetcher,
    follower,
    hosting,
    offset_queries,
)
from tidelog.replication.brokers import BrokerEpochs
from tidelog.replication.fetch_path import FetchPath
from tidelog.replication.isr import Committed, Pending
from tidelog.replication.leader import LeaderState
from tidelog.replication.partition import Partition
from tidelog.replication.remote_replica import RemoteReplica


def _wait_for_committed_isr(
    self: LeaderState, replica_id: int, _remote: RemoteReplica, _now: int
) -> bool:
    return replica_id in self.isr


def _expand_without_epoch_start(self: LeaderState, replica_id: int) -> bool:
    remote = self.remotes[replica_id]
    return (
        replica_id not in self.maximal_isr
        and remote.log_end_offset >= self.log.high_watermark
        and self._brokers.may_join_isr(replica_id, remote.broker_epoch)
    )


def _forget_who_left(self: LeaderState, isr: tuple[int, ...], *, seen_in_metadata: bool) -> None:
    assert not seen_in_metadata
    self.isr_state = Committed(isr)


def _append_whatever_comes(log: Log, fetched: Any, _epoch: int, trace: Any) -> Any:
    return follower.append_fetched(log, fetched, 2**31 - 1, trace)


SAFEGUARDS: dict[str, tuple[object, str, object]] = {
    "a_leadership_in_between_is_noticed": (Partition, "_has_missed_a_term", lambda *_: False),
    "acks_all_refused_below_min_isr": (LeaderState, "is_under_min_isr", property(lambda _: False)),
    "batches_above_requested_epoch_are_skipped": (
        fetch_answers,
        "append_fetched",
        _append_whatever_comes,
    ),
    "election_without_records_still_answers_for_its_epoch": (Log, "assign_epoch", lambda *_: False),
    "follower_below_the_epoch_start_stays_out_of_isr": (
        LeaderState,
        "may_expand",
        _expand_without_epoch_start,
    ),
    "follower_truncates_to_diverging_epoch": (fetch_reading, "_divergence", lambda *_: None),
    "group_commit_holds_high_watermark_until_flush": (
        LeaderState,
        "own_end_offset",
        property(lambda self: self.log.log_end_offset),
    ),
    "group_commit_holds_the_fetch_that_acknowledges": (
        Partition,
        "is_flushed",
        property(lambda _: True),
    ),
    "high_watermark_waits_for_a_replica_about_to_join": (
        LeaderState,
        "waits_for",
        _wait_for_committed_isr,
    ),
    "high_watermark_waits_for_min_isr": (
        LeaderState,
        "is_under_min_isr",
        property(lambda _: False),
    ),
    "metadata_of_a_former_life_is_not_acted_upon": (hosting, "is_in_force", lambda *_: True),
    "new_leader_hides_offsets_until_epoch_start": (
        offset_queries,
        "_is_unsettled",
        lambda *_: False,
    ),
    "parked_fetches_end_when_leadership_begins": (FetchPath, "release_followers", lambda *_: None),
    "pending_expand_counts_at_once": (LeaderState, "waits_for", _wait_for_committed_isr),
    "pending_shrink_still_counts": (
        Pending,
        "maximal_isr",
        property(lambda self: self.proposed_isr),
    ),
    "reader_of_a_follower_sees_commits_at_once": (fetcher, "CONSUMER_INTEREST_MS", -1),
    "shrink_answered_before_a_higher_min_isr_is_known": (
        LeaderState,
        "commit_isr",
        _forget_who_left,
    ),
    "stale_broker_epoch_never_joins_isr": (BrokerEpochs, "may_join_isr", lambda *_: True),
    "unreachable_leader_is_not_hammered": (fetcher, "pause_ms", lambda *_: 0),
}


@pytest.mark.parametrize("script", sorted(SAFEGUARDS))
def test_the_script_needs_its_safeguard(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the rule away and run the script."""
    target, name, replacement = SAFEGUARDS[script]
    monkeypatch.setattr(target, name, replacement)
    path = Path(__file__).parent / f"{script}.txt"
    with pytest.raises(AssertionError):
        run_script(path, Interpreter().run, rewrite=False)


def test_every_safeguard_has_its_script() -> None:
    """A renamed script must not silently leave the list."""
    scripts = {path.stem for path in Path(__file__).parent.glob("*.txt")}
    assert set(SAFEGUARDS) <= scripts
