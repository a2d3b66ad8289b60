"""Safeguards of group coordinators, and what they answer without them."""

from typing import Any, Final

from tidelog.broker.coordinator_log import LogLoader
from tidelog.errors import ErrorCode
from tidelog.groups.env import Env
from tidelog.groups.messages import Refused
from tidelog.sim.ablations.safeguard import guard_of_cluster


def _answer_at_once(env: Env, records: Any, response: Any, reply_to: Any) -> ErrorCode:
    """What is appended counts as done."""
    code = env.append(records)
    env.answer(reply_to, response if code is ErrorCode.NONE else Refused(code))
    return code


SAFEGUARDS: Final = (
    guard_of_cluster(
        "elections", "commits-wait-for-replicas", "an acknowledged commit that only its leader had"
    ).replaced(Env, "write", _answer_at_once),
    guard_of_cluster(
        "elections", "coordinators-load-first", "groups that have read nothing, so they begin anew"
    ).replaced(LogLoader, "is_done", property(lambda _: True)),
)
"""Of commits and of loading."""
