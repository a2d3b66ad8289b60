"""How long a change of a password or of a right takes to reach every broker.

    python -m bench.revocation --rounds 20 --json build/revocation.json

Three protected nodes with default settings, one process each. A round gives a user another
password, or gives and takes a right, and asks all brokers until each of them follows: the new
password logs in and the old one does not, the topic is shown or hidden. The time begins with the
answer to the administrator. In every second round the active controller is killed first, and the
change is asked for at once; what the cluster needs to elect is in the time until that answer, which
is a figure of its own. The killed node comes back before the next change.
"""

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tidelog.client import AdminClient, ClientSecurity
from tidelog.client.acls import Acl, AclQuery
from tidelog.client.core.errors import AuthenticationFailed
from tidelog.model import Mechanism, Secret
from tidelog.testing import LocalCluster
from tidelog.testing.cluster_state import LocalNode
from tidelog.testing.processes import ProcessState
from tidelog.testing.waiting import wait_until

SCRAM = Mechanism.SCRAM_SHA_512
USER = "ada"
TOPIC = "orders"
PATIENCE_S = 60.0
RIGHT = Acl("TOPIC", TOPIC, "LITERAL", f"User:{USER}", "*", "DESCRIBE", "ALLOW")


@dataclass
class Figures:
    """Seconds, by what was changed."""

    answered: dict[str, list[float]] = field(default_factory=dict)
    """From the request to the answer."""
    followed: dict[str, list[float]] = field(default_factory=dict)
    """From the answer until the last broker follows."""


class Bench:
    """A cluster and its user."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self.figures = Figures()
        self._password = ""
        self._count = 0

    def client(self, node: LocalNode, password: str) -> AdminClient:
        """The user's connection to a node."""
        settings = dict(self._cluster.security.client("guest").settings)
        known = self._cluster.security.password("guest")
        jaas = settings["sasl.jaas.config"].replace(known, password).replace("guest", USER)
        security = ClientSecurity({**settings, "sasl.jaas.config": jaas})
        return AdminClient([node.address], timeout_s=PATIENCE_S, security=security)

    def lets_in(self, node: LocalNode, password: str) -> bool:
        """Whether a new connection is accepted."""
        try:
            with self.client(node, password) as client:
                client.describe_cluster()
        except AuthenticationFailed:
            return False
        return True

    def change_password(self, kind: str) -> None:
        """Another password, until each broker has it in place of the old one."""
        old, self._count = self._password, self._count + 1
        new = self._password = f"password-{self._count}"
        with self._cluster.admin(PATIENCE_S) as admin:
            self._measure(
                f"password{kind}",
                lambda: admin.users.add(USER, SCRAM, Secret(new)),
                lambda node: self.lets_in(node, new) and not (old and self.lets_in(node, old)),
            )

    def change_right(self, kind: str, is_allowed: bool) -> None:
        """A right that comes or goes, as open connections see it."""
        with self._cluster.admin(PATIENCE_S) as admin:
            clients = {n.node_id: self.client(n, self._password) for n in self._cluster.nodes}
            try:
                if not kind:
                    for client in clients.values():
                        client.list_topics()
                self._measure(
                    f"{'right given' if is_allowed else 'right taken'}{kind}",
                    lambda: (
                        admin.acls.add([RIGHT])
                        if is_allowed
                        else admin.acls.remove(AclQuery(principal=RIGHT.principal))
                    ),
                    lambda node: bool(clients[node.node_id].list_topics()) is is_allowed,
                )
            finally:
                for client in clients.values():
                    client.close()

    def _measure(
        self, what: str, change: Callable[[], object], follows: Callable[[LocalNode], bool]
    ) -> None:
        begin = time.monotonic()
        change()
        answered = time.monotonic()
        for node in self._cluster.nodes:
            if node.state is ProcessState.RUNNING:
                wait_until(lambda node=node: follows(node), PATIENCE_S, f"change at {node}")
        self.figures.answered.setdefault(what, []).append(answered - begin)
        self.figures.followed.setdefault(what, []).append(time.monotonic() - answered)

    def run(self, rounds: int) -> None:
        """Rounds without and with a dead controller, in turn."""
        self._cluster.create_topic(TOPIC, partitions=1, replication_factor=3)
        self.change_password(" (first)")
        for _ in range(rounds):
            for kind in ("", ", controller killed"):
                for change in (
                    lambda kind=kind: self.change_password(kind),
                    lambda kind=kind: self.change_right(kind, True),
                    lambda kind=kind: self.change_right(kind, False),
                ):
                    killed = self._kill_controller() if kind else None
                    change()
                    if killed is not None:
                        self._cluster.start_node(killed)
                        self._cluster.wait_until_ready(PATIENCE_S)

    def _kill_controller(self) -> int:
        with self._cluster.admin(PATIENCE_S) as admin:
            leader = admin.describe_quorum().leader_id
        self._cluster.kill(leader)
        return leader


def rows_of(figures: Figures) -> dict[str, dict[str, float]]:
    """Median and maximum of each kind, in ms."""
    return {
        what: {
            "rounds": len(followed),
            "answer_p50_ms": round(statistics.median(figures.answered[what]) * 1000),
            "answer_max_ms": round(max(figures.answered[what]) * 1000),
            "all_p50_ms": round(statistics.median(followed) * 1000),
            "all_max_ms": round(max(followed) * 1000),
        }
        for what, followed in figures.followed.items()
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.revocation", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="tidelog-") as directory:
        where = Path(directory) / "cluster"
        with LocalCluster(brokers=3, data_dir=where, profile="default", secure=True) as cluster:
            bench = Bench(cluster)
            bench.run(options.rounds)
    rows = rows_of(bench.figures)
    columns = ("answer_p50_ms", "answer_max_ms", "all_p50_ms", "all_max_ms")
    print(f"{'change':<34}{'rounds':>8}" + "".join(f"{name:>16}" for name in columns))
    for what, row in rows.items():
        print(f"{what:<34}{row['rounds']:>8}" + "".join(f"{row[name]:>16,}" for name in columns))
    if options.json is not None:
        machine = f"{os.cpu_count()} cores, {platform.machine()}"
        options.json.write_text(json.dumps({"machine": machine, "figures": rows}, indent=1))


if __name__ == "__main__":
    main()
