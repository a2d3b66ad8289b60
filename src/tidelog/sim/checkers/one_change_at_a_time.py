"""I20 on whole nodes: voter sets that follow each other differ in one voter.

The oracle of the quorum tier looks at every node after each of its events, because a set that was
followed by another is forgotten as soon as both are committed.
"""

from tidelog.sim.engine.host import Host
from tidelog.sim.quorum.membership import VoterOracle


class OneChangeAtATime:
    """Compares the voter sets of the nodes, committed or not."""

    name = "OneChangeAtATime"

    def __init__(self) -> None:
        # Every committed set.
        self.oracle = VoterOracle()
        # Exclusive end of all metadata that any node ever knew to be committed.
        self._committed_end = 0

    def on_event(self, host: Host) -> None:
        """Looks at what a node obeys now."""
        assert host.node is not None, f"{host.name} has no process"
        quorum = host.node.broker.quorum
        self._committed_end = max(self._committed_end, quorum.high_watermark)
        self.oracle.check_sets(host.node_id, quorum, self._committed_end)
