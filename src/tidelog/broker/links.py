"""The ways from a node to other nodes: each asks for one component, over the channels of `peers`.

`peer_answers.py` gives each answer to the link that asked. What goes to the controller has its own
link (`control_link.py`): handlers use it, too.
"""

from dataclasses import dataclass

from tidelog.broker.composition import Parts
from tidelog.broker.quorum_link import QuorumLink
from tidelog.broker.replica_link import ReplicaLink
from tidelog.broker.router import Router
from tidelog.broker.share_persister import SharePersister
from tidelog.broker.share_state_calls import ShareStateCalls
from tidelog.broker.transaction_checks import TransactionChecks
from tidelog.broker.transaction_markers import TransactionMarkers
from tidelog.config import NodeConfig


@dataclass(frozen=True, slots=True)
class Links:
    """The ways of one node."""

    # To the other voters and the observers of the quorum.
    quorum: QuorumLink
    # To the leaders that replicas of this node follow.
    replicas: ReplicaLink
    # To the coordinators of transactions whose records are written here.
    transaction_checks: TransactionChecks
    # To the leaders that must write the end of a transaction which is coordinated here.
    markers: TransactionMarkers
    # To the coordinators of the share partitions of groups that are coordinated here.
    share_states: ShareStateCalls
    # To the coordinators of the share partitions of this node.
    share_persister: SharePersister


def make_links(config: NodeConfig, parts: Parts, router: Router) -> Links:
    """None of them has asked for anything yet."""
    broker, peers = parts.broker, parts.peers
    return Links(
        quorum=QuorumLink(config, broker.quorum, peers=peers, router=router),
        replicas=ReplicaLink(config, broker.replicas, peers),
        transaction_checks=TransactionChecks(config, broker.replicas, peers),
        markers=TransactionMarkers(config, broker.transactions, peers),
        share_states=broker.share_states,
        share_persister=broker.sharing.persister,
    )
