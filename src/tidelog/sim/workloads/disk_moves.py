"""An administrator who moves replicas between the disks of their nodes, to and fro.

He knows which replicas a node has; what he wants is refused, carried out, or overtaken by his next
wish or a fault. No move may lose a record, and the checkers look at nothing else.
"""

from typing import Final

from tidelog.env.prng import Prng
from tidelog.model import METADATA_PARTITION
from tidelog.sim.engine.world import World
from tidelog.sim.workloads.admin import Admin
from tidelog.sim.workloads.cluster_view import request
from tidelog.wire.api import ApiKey

MOVE_VERSION: Final = 2


class DiskMover:
    """One client that moves replicas between disks."""

    def __init__(self, world: World, admin: Admin, prng: Prng) -> None:
        self._world = world
        self._admin = admin
        self._prng = prng

    def act(self) -> None:
        """Wants one replica of a running node on one of its disks."""
        if not self._world.nodes:
            return
        node = self._prng.choice(self._world.nodes)
        hosted = sorted(node.broker.replicas.partitions)
        if not hosted:
            return
        key = self._prng.choice(hosted)
        assert key != METADATA_PARTITION, "the metadata log is not a replica"
        host = self._world.hosts[node.config.node_id]
        disk = self._prng.choice((host.disk, *host.more_disks))
        topic = {"name": key.topic, "partitions": [key.partition]}
        wanted = request(
            ApiKey.ALTER_REPLICA_LOG_DIRS,
            MOVE_VERSION,
            dirs=[{"path": disk.root, "topics": [topic]}],
        )
        # Any answer will do.
        self._admin.send(wanted, lambda _: None, host.node_id)
