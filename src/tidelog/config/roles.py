"""The roles of a node, and whether they fit the quorum that its file names.

Kafka's rules. `process.roles` is `broker`, `controller` or both. With a static voter set a
controller is one of `controller.quorum.voters`; a node that is only a broker is an observer.
Without a static set the voter set is in the metadata log (`kraft.version` 1, KIP-853), and nodes
find the quorum through `controller.quorum.bootstrap.servers`.
"""

from collections.abc import Mapping
from typing import Final

from tidelog.config.property_types import split_list
from tidelog.config.values import BROKER_ROLE, CONTROLLER_ROLE, NodeConfig
from tidelog.errors import UsageError

_ROLES: Final = (BROKER_ROLE, CONTROLLER_ROLE)
_ROLES_HINT: Final = (
    "set `process.roles` to `broker`, to `controller`, or to `broker,controller` for both"
)


def resolve_roles(settings: Mapping[str, str]) -> tuple[str, ...]:
    """The roles of a node, `broker` first; raises `UsageError` for none, a double or an unknown."""
    text = settings.get("process.roles", "")
    given = split_list(text)
    if not given:
        raise UsageError("`process.roles` is missing", _ROLES_HINT)
    for role in given:
        if role not in _ROLES:
            raise UsageError(f"`process.roles`: `{role}` is not a role", _ROLES_HINT)
        if given.count(role) > 1:
            raise UsageError(f"`process.roles`: `{role}` appears twice", _ROLES_HINT)
    return tuple(role for role in _ROLES if role in given)


def check_membership(config: NodeConfig) -> None:
    """Raises `UsageError` when the roles and the static voters contradict each other."""
    node_id = config.node_id
    if not config.voters:
        return
    if config.is_controller and node_id not in config.voters:
        problem = f"`node.id` `{node_id}` is not among `controller.quorum.voters`"
        raise UsageError(
            problem,
            f"add `{node_id}@host:port` to the voters of every node, or take `controller` out of "
            "`process.roles`",
        )
    if not config.is_controller and node_id in config.voters:
        problem = (
            f"`process.roles` is `broker`, and `node.id` `{node_id}` is among "
            "`controller.quorum.voters`"
        )
        raise UsageError(
            problem, "give the broker a number of its own, or add `controller` to `process.roles`"
        )
