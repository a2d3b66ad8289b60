"""Carries out a schedule on a running cluster.

Whatever is begun is ended, in whatever state the cluster is; a node that is down when its turn
comes is started instead. A node may end by itself for one reason only, a full disk. Any other end
is a bug, and so is a start that fails while nothing is wrong with its disk: both are kept in
`mishaps`, and fail the round.
"""

import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from tests.chaos.cluster import ChaosCluster
from tests.chaos.lines import now_us
from tests.chaos.links import CLIENT, Link
from tests.chaos.schedule import Fault, Role, Step
from tidelog.client import AdminError, Unreachable
from tidelog.errors import UsageError
from tidelog.testing.processes import ProcessState

RECOVERY_S: Final = 20.0
"""How long a calm waits for all replicas to be in sync. The schedule goes on without it."""

ROLLING_READY_S: Final = 10.0
_POLL_S: Final = 0.05

Event = tuple[int, str]


class Nemesis:
    """Carries out steps; see the module's docstring."""

    def __init__(self, cluster: ChaosCluster, topics: Sequence[str], partitions: int) -> None:
        self._cluster = cluster
        self._topics = topics
        self._partitions = partitions
        # How many faults of each kind were injected.
        self.faults: Counter[str] = Counter()
        # What happened, with times in microseconds.
        self.events: list[Event] = []
        # What no fault explains.
        self.mishaps: list[str] = []
        # Nodes that were stopped here and not started again.
        self._down: set[int] = set()
        # Whether the small disk is full, and whether it was since its node was started.
        self._disk_is_full = False
        self._disk_was_full = False

    def carry_out(self, step: Step) -> None:
        """One step with its calm."""
        self._run(step)
        if self._cluster.kinds:
            # A node of Kafka takes longer to start than several steps.
            self._cluster.wait_for_listeners(RECOVERY_S)
        if step.recover:
            self.wait_for_recovery(RECOVERY_S)
        time.sleep(step.calm_ms / 1000)

    def heal(self) -> None:
        """Ends all faults and starts the nodes that are down."""
        self._cluster.links.release()
        self._free_disk()
        for node_id in self._cluster.ids:
            self._resume(node_id)
            self._start(node_id)
        self._note("healed")

    def wait_for_recovery(self, timeout_s: float) -> bool:
        """Waits until every replica of every partition is in sync; whether that came."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if not self.behind():
                return True
            time.sleep(_POLL_S)
        return False

    def behind(self) -> str:
        """What is not in sync yet; empty when everything is."""
        try:
            with self._cluster.local.admin(2.0) as admin:
                for topic in admin.describe_topics(self._topics):
                    for one in topic.partitions:
                        if set(one.isr) != set(one.replicas) or one.leader < 0:
                            return f"{topic.name}-{one.partition}: {one}"
        except (Unreachable, AdminError, UsageError) as error:
            return str(error)
        return ""

    # Steps ------------------------------------------------------------------------------------

    def _run(self, step: Step) -> None:
        cluster, target = self._cluster, self._target(step)
        if step.fault is Fault.DISK_FULL:
            target = cluster.small_disk.node_id if cluster.small_disk else target
        self._note(f"{step} -> node {target}")
        if step.fault is Fault.STORM:
            self._storm(step)
        elif step.fault is Fault.ROLLING:
            self._rolling()
        elif step.fault is Fault.KILL_ALL:
            for node_id in cluster.ids:
                self._kill(node_id)
            self._count(step.fault)
            self._hold(step)
            for node_id in cluster.ids:
                self._start(node_id)
        elif step.fault is Fault.KILL:
            self._kill(target)
            self._count(step.fault)
            self._hold(step)
            self._start(target)
        elif step.fault is Fault.CHANGE:
            self._change(step, target)
        elif step.fault is Fault.PAUSE:
            self._pause(step, target)
        elif step.fault in (Fault.ROTATION, Fault.PASSWORD, Fault.RIGHTS):
            self._change_protection(step)
        elif step.fault is Fault.MOVE:
            self._move(step, target)
        elif step.fault is Fault.DISK_FULL:
            self._fill_disk(step, target)
        else:
            self._links(step, target)

    def _storm(self, step: Step) -> None:
        for i in range(step.count):
            node_id = self._cluster.ids[(step.draw >> 3 * i) % len(self._cluster.ids)]
            self._kill(node_id)
            self._count(step.fault)
            self._start(node_id)
            time.sleep(step.hold_ms / 1000 / step.count)

    def _rolling(self) -> None:
        for node_id in self._cluster.ids:
            if self._cluster.is_running(node_id):
                self._stop(node_id)
                self._count(Fault.ROLLING)
            self._start(node_id)
            self.wait_for_recovery(RECOVERY_S if self._cluster.kinds else ROLLING_READY_S)

    def _change(self, step: Step, target: int) -> None:
        if step.draw % 2 or not self._cluster.is_running(target):
            self._kill(target)
        else:
            self._stop(target)
        self._cluster.change_kind(target)
        self._count(step.fault)
        self._hold(step)
        self._start(target)

    def _pause(self, step: Step, target: int) -> None:
        if not self._cluster.is_running(target):
            self._start(target)
            return
        self._cluster.local.pause(target)
        self._count(step.fault)
        self._hold(step)
        self._resume(target)
        self._start(target)

    def _move(self, step: Step, target: int) -> None:
        if not self._cluster.is_running(target):
            self._start(target)
            return
        first = step.draw % len(self._topics)
        for topic in self._topics[first:]:
            if self._cluster.move(target, topic, step.draw // 11 % self._partitions):
                self._count(step.fault)
        self._hold(step)

    def _change_protection(self, step: Step) -> None:
        protection = self._cluster.protection
        assert protection is not None, "the cluster is not protected"
        changes = {
            Fault.ROTATION: protection.rotate,
            Fault.PASSWORD: protection.lock_out,
            Fault.RIGHTS: protection.exchange_rights,
        }
        if changes[step.fault]():
            self._count(step.fault)
        else:
            self._note(f"{step.fault.value}: no controller carries it out")
        self._hold(step)
        protection.let_in()

    def _fill_disk(self, step: Step, target: int) -> None:
        disk = self._cluster.small_disk
        if disk is None or not self._cluster.is_running(target):
            self._start(target)
            return
        self._disk_is_full = self._disk_was_full = True
        disk.fill()
        self._count(step.fault)
        self._hold(step)
        self._free_disk()
        if self._cluster.disks > 1:
            # A log directory that has failed serves again after a start, and not before.
            self._kill(target)
        self._start(target)

    def _links(self, step: Step, target: int) -> None:
        links, cut = self._cluster.links, self._cut_links(step, target)
        (links.refuse if step.fault is Fault.RESET else links.hold)(cut)
        self._count(step.fault)
        self._hold(step)
        if step.draw % 2 and step.fault is not Fault.STALL:
            # One end gives up half of the connections that stood still for long.
            links.reset(cut)
        links.release(cut)

    def _cut_links(self, step: Step, target: int) -> list[Link]:
        others = [node_id for node_id in self._cluster.ids if node_id != target]
        peer = others[step.draw // 7 % len(others)]
        peers = [*others, CLIENT]
        out, back = [(target, one) for one in peers], [(one, target) for one in peers]
        if step.fault is Fault.ONE_WAY_OUT:
            return out
        if step.fault is Fault.ONE_WAY_IN:
            return back
        if step.fault is Fault.PAIR:
            return [(target, peer), (peer, target)]
        if step.fault is Fault.CUT_NODES:
            return [link for link in (*out, *back) if CLIENT not in link]
        return out + back

    def _hold(self, step: Step) -> None:
        time.sleep(step.hold_ms / 2000)
        if step.within is not None:
            self._run(step.within)
        time.sleep(step.hold_ms / 2000)

    # Targets ----------------------------------------------------------------------------------

    def _target(self, step: Step) -> int:
        ids = self._cluster.ids
        drawn = ids[step.draw % len(ids)]
        if step.role is Role.ANY:
            return drawn
        if step.role is Role.CONTROLLER:
            return self._cluster.controller() or drawn
        topic = self._topics[step.draw % len(self._topics)]
        found = self._cluster.partition(topic, step.draw // 11 % self._partitions)
        if found is None or found.leader < 0:
            return drawn
        if step.role is Role.LEADER:
            return found.leader
        followers = [one for one in found.replicas if one != found.leader]
        return followers[step.draw % len(followers)]

    # Nodes ------------------------------------------------------------------------------------

    def _stop(self, node_id: int) -> None:
        self._down.add(node_id)
        try:
            self._cluster.local.terminate(node_id, 60)
        except TimeoutError as error:
            # A node of Kafka that ends waits for a controller to let it go.
            (self._note if self._cluster.is_kafka(node_id) else self._mishap)(str(error))

    def _kill(self, node_id: int) -> None:
        if not self._cluster.is_stopped(node_id):
            self._down.add(node_id)
            self._cluster.local.kill(node_id)

    def _resume(self, node_id: int) -> None:
        if self._cluster.local.node(node_id).state is ProcessState.PAUSED:
            self._cluster.local.resume(node_id)

    def _start(self, node_id: int) -> None:
        if not self._cluster.is_stopped(node_id):
            return
        disk = self._cluster.small_disk
        full = disk is not None and disk.node_id == node_id and self._disk_was_full
        if node_id not in self._down and not full:
            kind = " of Kafka" if self._cluster.is_kafka(node_id) else ""
            self._mishap(f"node {node_id}{kind} has ended by itself")
        self._down.add(node_id)
        try:
            self._cluster.start_node(node_id)
        except UsageError as error:
            if full:
                self._note(f"node {node_id} does not start on a full disk: {error}")
            else:
                self._mishap(f"node {node_id} did not start: {error}")
            return
        self._down.discard(node_id)
        if full and not self._disk_is_full:
            self._disk_was_full = False

    def _free_disk(self) -> None:
        if self._cluster.small_disk is not None:
            self._cluster.small_disk.free()
            self._disk_is_full = False

    def _count(self, fault: Fault) -> None:
        self.faults[fault.value] += 1

    def _mishap(self, text: str) -> None:
        self.mishaps.append(text)
        self._note(f"mishap: {text}")

    def _note(self, text: str) -> None:
        self.events.append((now_us(), text))
