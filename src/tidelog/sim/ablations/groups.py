"""Safeguards of group coordinators, and what they answer without them."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from tidelog.broker.log_loader import LogLoader
from tidelog.errors import ErrorCode
from tidelog.groups import offsets
from tidelog.groups.consumer_records import IdPartition, Target
from tidelog.groups.env import AssignmentCommitted, Env
from tidelog.groups.messages import JoinGroupResult
from tidelog.groups.reconciliation import Goal
from tidelog.model import TopicId
from tidelog.rsm.coordinator import Refused
from tidelog.sim.ablations.safeguard import Original, guard, guard_of_cluster


def _answer_at_once(env: Env, records: Any, response: Any, reply_to: Any) -> ErrorCode:
    """What is appended counts as done."""
    code = env.append(records)
    env.answer(reply_to, response if code is ErrorCode.NONE else Refused(code))
    return code


def _free_at_once(
    own: Goal,
    epoch: int,
    target: Target,
    subscribed: Collection[TopicId],
    owners: Mapping[IdPartition, str],
) -> None:
    """No partition counts as another member's."""
    own.epoch, own.subscribed, own.owners = epoch, subscribed, {}
    own.target = frozenset(each for each in target if each.topic_id in subscribed)


def _remember_only(
    write: Original, env: Env, records: Any, response: Any, reply_to: Any
) -> ErrorCode:
    """A process that takes a static member's place is known to this coordinator alone."""
    is_place = isinstance(response, JoinGroupResult)
    code: ErrorCode = write(env, () if is_place else records, response, reply_to)
    return code


def _assign_only(
    append: Original, env: Env, records: Any, response: Any = None, reply_to: Any = None
) -> ErrorCode:
    """Members get their parts of a generation that is known to this coordinator alone."""
    is_assignment = isinstance(response, AssignmentCommitted)
    code: ErrorCode = append(env, () if is_assignment else records, response, reply_to)
    return code


SAFEGUARDS: Final = (
    guard("r35", "replacements-are-written", "fencing the process that is the member").wrapped(
        Env, "write", _remember_only
    ),
    guard("r37", "answers-wait-for-the-load", "consumers that begin anew").replaced(
        LogLoader, "is_done", property(lambda _: True)
    ),
    guard("r37", "what-is-held-is-replayed", "consumers that begin anew").replaced(
        LogLoader, "is_done", property(lambda self: self.position >= self.end)
    ),
    guard_of_cluster(
        "elections", "commits-wait-for-replicas", "an acknowledged commit that only its leader had"
    ).replaced(Env, "write", _answer_at_once),
    guard_of_cluster(
        "elections", "coordinators-load-first", "groups that have read nothing, so they begin anew"
    ).replaced(LogLoader, "is_done", property(lambda _: True)),
    guard_of_cluster(
        "copies", "only-the-generation-commits", "a replaced member that moves its successor back"
    ).replaced(offsets, "_fault_of", lambda *_: ErrorCode.NONE),
    guard_of_cluster(
        "copies", "assignments-are-written", "two generations with one number"
    ).wrapped(Env, "append", _assign_only),
    guard_of_cluster(
        "elections", "partitions-are-given-back-first", "two members that read the same partition"
    ).replaced(Goal, "__init__", _free_at_once),
)
"""Of commits, of loading and of members."""
