"""Where the other replicas are reached.

Configured voters (`kraft.version` 0) are reached where the configuration says. With voters in the
log, three sources answer, in this order: what a response or a request has named (`learn`), the
bootstrap servers under the numbers that stand for them, and the voter set. A leader that the voter
set does not name any more, because it removes itself or the log was cut, is still reached where it
was reached last.

Left out: who leads; `transitions.py` reports each leader that this replica learns of.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from tidelog.kraft.messages import VoterIdentity
from tidelog.kraft.voters import DYNAMIC_VOTERS, VoterHistory
from tidelog.model import Endpoint

FIRST_BOOTSTRAP_ID: Final = -2
"""Bootstrap servers have no node id that is known; they are numbered downwards from here."""


class Addresses:
    """The addresses that one replica knows."""

    def __init__(
        self, identity: VoterIdentity, history: VoterHistory, bootstrap: Sequence[Endpoint]
    ) -> None:
        self._identity = identity
        # Names the voters and their addresses.
        self._history = history
        # Where to ask who leads, by the number that stands for an address without a node id.
        self.bootstrap: Mapping[int, Endpoint] = {
            FIRST_BOOTSTRAP_ID - index: endpoint for index, endpoint in enumerate(bootstrap)
        }
        # Where the leader is reached that a message named last, beside the voter set: a leader that
        # is not a voter (any more), or whose address has changed. At most one entry.
        self._learnt: dict[int, Endpoint] = {}
        # The last leader that was known with its address: it is still reached there when the voters
        # do not name it any more, because it is removing itself or the log was cut.
        self._last_leader: tuple[int, Endpoint] | None = None

    @property
    def leads_to_others(self) -> bool:
        """Whether a bootstrap server may be another replica than this one."""
        own = {(each.host, each.port) for each in self._identity.endpoints}
        return any((each.host, each.port) not in own for each in self.bootstrap.values())

    def of(self, node_id: int) -> Endpoint | None:
        """Where a voter, the leader or a bootstrap server is reached, as far as it is known."""
        if node_id == self._identity.node_id and self._identity.endpoints:
            return self._identity.endpoints[0]
        learnt = self._learnt.get(node_id) or self.bootstrap.get(node_id)
        if learnt is not None:
            return learnt
        voter = self._history.voters.get(node_id)
        if voter is not None and voter.endpoints:
            return self.choose(voter.endpoints)
        last = self._last_leader
        return last[1] if last is not None and last[0] == node_id else None

    def choose(self, endpoints: Sequence[Endpoint]) -> Endpoint:
        """Of a replica's listeners the one with the name under which voters reach this node; a
        node that is not a controller takes the first."""
        mine = self._identity.endpoints
        named = [end for end in endpoints if mine and end.listener == mine[0].listener]
        return (named or list(endpoints))[0]

    def learn(self, node_id: int, endpoint: Endpoint | None) -> None:
        """A message names the address of a leader. Configured voters keep the configured one."""
        history = self._history
        is_configured = node_id in history.voters and history.version < DYNAMIC_VOTERS
        if endpoint is None or node_id < 0 or is_configured:
            return
        self._learnt = {node_id: endpoint}

    def knows(self, leader_id: int) -> bool:
        """Whether this may be a leader: a voter, or a node whose address is known, because the own
        log may be too old to have the voter."""
        return leader_id in self._history.voters or (
            leader_id >= 0 and self.of(leader_id) is not None
        )

    def on_leader(self, leader_id: int) -> None:
        """This replica has learnt who leads, or that it does not know (-1)."""
        endpoint = self.of(leader_id)
        if endpoint is not None:
            self._last_leader = (leader_id, endpoint)

    def on_voters_changed(self) -> None:
        """The addresses in the new voter set count."""
        for node_id in self._history.voters:
            self._learnt.pop(node_id, None)
