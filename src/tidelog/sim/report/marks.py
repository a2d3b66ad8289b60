"""Reachability marks: rare states by name, and which of them a campaign has seen.

A mark is a decision that some node told its trace: handler, decision and reason, with `#` for what
varies. A campaign that never reaches a state says nothing about it, whatever it counts; so it
prints the marks that it never hit. New decisions need a line here only when they are rare or
matter; what is not listed is not counted.
"""

import re
from functools import lru_cache
from typing import Final

from tidelog.env.event import Event
from tidelog.env.trace import TraceLine

_VARIES: Final = re.compile(r"\d+|`[^`]*`|host\S+")


@lru_cache(maxsize=8192)
def mark_of(handler: str, decision: str, reason: str) -> str | None:
    """The mark of a decision, if it is one."""
    text = f"{handler}: {decision}"
    if reason:
        text += f" ({_VARIES.sub('#', reason)})"
    return text if text in MARKS else None


class MarksHit:
    """The marks of one run."""

    __slots__ = ("names",)

    def __init__(self) -> None:
        # In the order of the first hit.
        self.names: dict[str, None] = {}

    def note(self, event: Event | TraceLine) -> None:
        """Looks at one decision."""
        name = mark_of(event.handler, event.decision, event.why())
        if name is not None:
            self.names[name] = None


MARKS: Final = frozenset(
    (
        "apply: deleted (the log has another topic id)",
        "apply: dropped (assigned elsewhere)",
        "apply: dropped (topic deleted)",
        "maybe_activate: active",
        "become_candidate: candidate (pre-vote won with # of #)",
        "become_follower: follower (the leader announced itself)",
        "become_follower: follower (pre-vote lost with # of #)",
        "become_follower: follower (pre-vote timed out with # of #)",
        "become_follower: follower (learnt from #)",
        "become_follower: follower (learnt from the leader)",
        "become_follower: follows",
        "become_follower: follows (was leader)",
        "become_follower: waits",
        "become_follower: waits (was leader)",
        "become_leader: isr changed (as proposed)",
        "become_leader: isr changed (by the controller)",
        "become_leader: leader (elected by # of #)",
        "become_leader: leads",
        "become_prospective: prospective (election timed out with # of #)",
        "become_prospective: prospective (leader # is silent)",
        "become_prospective: prospective (no leader is known)",
        "become_resigned: resigned (a majority does not fetch)",
        "become_resigned: resigned (resignation requested)",
        "become_unattached: unattached (leader # is silent)",
        "become_unattached: unattached (pre-vote lost with # of #)",
        "become_unattached: unattached (pre-vote timed out with # of #)",
        "become_unattached: unattached (waited after resigning)",
        "become_unattached: unattached (learnt from #)",
        "become_unattached: unattached (vote request from #)",
        "become_unattached: unattached (voted for #)",
        "begin_controlled_shutdown: leaving (it asked to)",
        "begin_shutdown: leaving",
        "change_partition: changed (broker # fenced: it shuts down)",
        "change_partition: changed (broker # fenced: session expired, silent for # ms)",
        "change_partition: changed (broker # in controlled shutdown)",
        "change_partition: changed (broker # restarted uncleanly)",
        "check_isrs: high watermark stands still (replicas lack records)",
        "check_isrs: high watermark stands still (under min isr)",
        "check_isrs: skipped (paused)",
        "clear_renamed: postponed",
        "doubt_leader: doubts (NOT_LEADER_OR_FOLLOWER)",
        "doubt_leader: doubts (never reached)",
        "doubt_leader: doubts (suspected dead)",
        "change_partition: elected (from elr)",
        "change_partition: elected (from isr)",
        "change_partition: elected (kept)",
        "change_partition: elected (last known leader, unclean)",
        "change_partition: elected (unclean)",
        "change_partition: gave up records (last known leader, unclean)",
        "change_partition: gave up records (unclean)",
        "change_partition: leaderless (no valid leader)",
        "fence: fenced (connections lost and refused, silent for # ms)",
        "fence: fenced (it shuts down)",
        "fence: fenced (session expired, silent for # ms)",
        "go_offline: offline (#: no space left on device)",
        "check_epochs: epochs rebuilt (they are not those of the batches)",
        "read_topic_id: topic id unknown (# is not a base# uuid of # bytes)",
        "read_topic_id: topic id unknown (# is not a base# uuid)",
        "read_topic_id: topic id unknown (fields # of partition metadata)",
        "read_topic_id: topic id unknown (line # has no colon)",
        "maybe_expand_isr: proposed (caught up to the high watermark)",
        "maybe_shrink_isr: proposed (not level for # ms)",
        "next_call: gone (no controller let us go)",
        "decide_alter_configs: altered",
        "decide_alter_partition: accepted",
        "decide_alter_partition: refused (INELIGIBLE_REPLICA)",
        "decide_alter_partition: refused (stale leader_epoch)",
        "decide_alter_partition: refused (stale partition_epoch)",
        "on_broker_suspected: suspected",
        "decide_create_partitions: grown",
        "decide_delete_topics: deleted",
        "on_closed: stopped",
        "on_end_request: doubts (the leader resigned)",
        "on_fetch: diverging",
        "on_fetch_response: delayed (FENCED_LEADER_EPOCH)",
        "on_fetch_response: delayed (NOT_LEADER_OR_FOLLOWER)",
        "on_fetch_response: delayed (OFFSET_NOT_AVAILABLE)",
        "on_fetch_response: delayed (UNKNOWN_LEADER_EPOCH)",
        "on_fetch_response: delayed (UNKNOWN_TOPIC_ID)",
        "on_fetch_response: delayed (UNKNOWN_TOPIC_OR_PARTITION)",
        "on_fetch_response: pausing (FETCH_SESSION_ID_NOT_FOUND)",
        "on_fetch_response: pausing (no answer)",
        "on_fetch_response: truncating (OFFSET_OUT_OF_RANGE)",
        "on_flush_failed: stopping (#: flush failed)",
        "on_flush_failed: stopping (#: input/output error)",
        "on_isr_answer: committed",
        "on_isr_answer: waits for metadata (INVALID_UPDATE_VERSION)",
        "on_isr_answer: waits for metadata (NEW_LEADER_ELECTED)",
        "on_log_dir_failed: stopping (#: no space left on device)",
        "decide_registration: amended",
        "decide_registration: registered",
        "on_reached: reached",
        "on_response: fenced",
        "on_response: gone (the controller let us go)",
        "on_response: refused (DUPLICATE_BROKER_REGISTRATION)",
        "on_response: registered",
        "on_response: retrying (NOT_CONTROLLER)",
        "on_response: retrying (no controller)",
        "on_response: unfenced",
        "on_storage_error: stopping (#: input/output error)",
        "on_storage_error: stopping (#: no space left on device)",
        "on_suspected: suspected (connects refused)",
        "on_vote_request: granted (log is fresh)",
        "on_vote_request: refused (FENCED_LEADER_EPOCH)",
        "on_vote_request: refused (following #)",
        "on_vote_request: refused (leader is #)",
        "on_vote_request: refused (leading)",
        "on_vote_request: refused (log is stale)",
        "on_vote_request: refused (voted for #)",
        "on_vote_request: refused (voted for itself)",
        "open: loaded",
        "open: loaded (no clean shutdown marker, logs were recovered)",
        "read_checkpoints: missing (all counts as durable)",
        "delete_case: deleted (not placed on this node any more)",
        "change_partition: reassignment complete (asked for by hand)",
        "change_partition: reassignment complete (cancelled by hand)",
        "change_partition: reassignment complete (its newcomers are in sync)",
        "change_partition: reassignment in progress (asked for by hand)",
        "recover: cut (bad batch)",
        "remove_strays: set aside (not placed on this node)",
        "resign: inactive (another leader or epoch)",
        "schedule_delete: renamed",
        "start: follower",
        "start: resigned",
        "start: unattached",
        "truncate: truncated (diverged from the leader)",
        "truncate: truncated (diverging epoch)",
        "truncate_to: truncated",
        "unfence: unfenced (it caught up)",
    )
)
