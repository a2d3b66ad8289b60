"""How the machines of a world are set up: roles, configuration, formatted disks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.config import NodeConfig, parse_node_config
from tidelog.env.prng import Prng
from tidelog.log.identity import format_directory
from tidelog.model import Uuid
from tidelog.sim.engine.disk import SimDisk

WALL_START_MS: Final = 1_700_000_000_000
CLUSTER_ID: Final = "c2ltdWxhdGVkLWNsdXN0ZQ"


@dataclass(frozen=True, slots=True)
class Formation:
    """Which nodes there are. All controllers are voters at first: configured ones, or formatted as
    the first ones of a log that keeps them."""

    nodes: int
    """Combined nodes; brokers only, where there are `controllers`."""
    controllers: int = 0
    """Nodes that are only controllers, numbered behind the others."""
    voters_in_log: bool = False
    """Whether voters come and go (`kraft.version` 1)."""

    @property
    def node_ids(self) -> range:
        """Every node."""
        return range(1, self.nodes + self.controllers + 1)

    def config_of(self, node_id: int, settings: Mapping[str, str]) -> NodeConfig:
        """The configuration of a node; `settings` go before what is usual here."""
        return parse_node_config(
            {
                "node.id": str(node_id),
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "log.dirs": "data",
                "default.replication.factor": str(min(3, self.nodes)),
                "min.insync.replicas": str(min(2, self.nodes)),
                # Faults may keep nodes from a quorum for longer; a node that ends by itself is a
                # bug here.
                "initial.broker.registration.timeout.ms": str(2**31 - 1),
                **self._roles_of(node_id),
                **settings,
            }
        )

    def _roles_of(self, node_id: int) -> dict[str, str]:
        """The properties by which the nodes differ in what they are."""
        first = self.nodes + 1 if self.controllers else 1
        voters = range(first, first + (self.controllers or self.nodes))
        if self.voters_in_log:
            servers = ",".join(f"host{i}:9093" for i in voters)
            settings = {"controller.quorum.bootstrap.servers": servers}
        else:
            settings = {"controller.quorum.voters": ",".join(f"{i}@host{i}:9093" for i in voters)}
        broker, controller = f"PLAINTEXT://host{node_id}:9092", f"CONTROLLER://host{node_id}:9093"
        if node_id > self.nodes:
            return settings | {"process.roles": "controller", "listeners": controller}
        settings["inter.broker.listener.name"] = "PLAINTEXT"
        if self.controllers:
            return settings | {"process.roles": "broker", "listeners": broker}
        both = f"{broker},{controller}"
        return settings | {"process.roles": "broker,controller", "listeners": both}


def new_disk(node_id: int, prng: Prng, number: int = 0) -> SimDisk:
    """An empty disk, formatted for a node; the first one or another of its disks."""
    disk = SimDisk(root=f"host{node_id}" if not number else f"host{node_id}-{number}")
    format_directory(disk, cluster_id=CLUSTER_ID, node_id=node_id, directory_id=Uuid(prng.uuid()))
    return disk


def more_disks(config: NodeConfig, prng: Prng) -> tuple[SimDisk, ...]:
    """The disks that a node has beside the first one."""
    numbers = range(1, len(config.all_log_dirs))
    return tuple(new_disk(config.node_id, prng, number) for number in numbers)
