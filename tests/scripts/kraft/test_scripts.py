"""Golden scripts of the metadata quorum: each file shows one behaviour, which its name states.

Commands (times in ms, replicas by number):

    cluster [voters=3] [observers=0] [seed=1] [latency_ms=1] [disk_ms=1] [CONFIG=N ...]
    quorum [the same]                                          ... started, with a leader
    start [IDS]          starts all or some           status      one line for each replica
    run MS               lets time pass               messages on|off   shows what is sent
    until CONDITION      leader, quiet; at most limit=5000 ms
    append ID VALUES     appends one batch            committed ID  what it has handed out
    kill ID              the process is gone          power-cut ID  and what was not flushed, too
    suspect ID [by=ID]   the failure detectors report it dead
    cut A B              the link loses everything    cut-way A B   only from A to B
    isolate ID           all its links                heal          all links work
    hold-disk ID         nothing becomes durable      release-disk ID
    resign ID            hands the leadership over
    add-voter A ID       asks A to make ID a voter    remove-voter A ID   and to take it out again
    wipe ID              a dead replica gets an empty disk
    upgrade ID           asks ID, the leader, for kraft.version 1
With `dynamic=1` the voters are in the log (KIP-853).

An answer is the trace of the quorum: `TIME nID handler: decision (reason) key=value`.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.scripts.runner import Command, run_script, script_name, scripts_beside
from tests.unit.kraft.cluster import Cluster, Conditions
from tidelog.config import QuorumConfig
from tidelog.env.trace import Level
from tidelog.sim.quorum.replica import Replica


class Interpreter:
    """Runs a script on one cluster."""

    def __init__(self) -> None:
        self._cluster: Cluster | None = None

    @property
    def cluster(self) -> Cluster:
        """The script's cluster."""
        assert self._cluster is not None, "a script begins with `cluster`"
        return self._cluster

    def run(self, command: Command) -> list[str]:
        """Carries out a command; answers with its own lines and what the trace says."""
        method = f"_{command.name.replace('-', '_')}_command"
        handler: Callable[[Command], list[str] | None] | None = getattr(self, method, None)
        assert handler is not None, f"{command.where}: no command `{command.name}`"
        if command.name not in ("cluster", "quorum", "until", "suspect"):
            command.check_options()
        own_lines = handler(command) or []
        lines = [line.replace(" quorum ", " ", 1).strip() for line in self.cluster.lines]
        self.cluster.lines.clear()
        return lines + own_lines

    def _cluster_command(self, command: Command) -> None:
        options = {key: int(value) for key, value in command.options.items()}
        voters = options.pop("voters", 3)
        observers = options.pop("observers", 0)
        seed = options.pop("seed", 1)
        dynamic = bool(options.pop("dynamic", 0))
        latency_ms, disk_ms = options.pop("latency_ms", 1), options.pop("disk_ms", 1)
        self._cluster = Cluster(
            seed,
            voter_count=voters,
            observer_count=observers,
            config=replace(QuorumConfig(), **options),
            steps=Conditions((latency_ms, latency_ms), (disk_ms, disk_ms)),
            trace_level=Level.INFO,
            dynamic=dynamic,
        )

    def _quorum_command(self, command: Command) -> list[str]:
        self._cluster_command(command)
        self.cluster.start_node()
        assert self.cluster.run_until(self._is_quiet, 5000), f"{command.where}: no leader"
        self.cluster.lines.clear()
        return self._status_command(command)

    def _start_command(self, command: Command) -> None:
        self.cluster.start_node(*(int(word) for word in command.words))

    def _run_command(self, command: Command) -> None:
        self.cluster.run(int(command.word()))

    def _until_command(self, command: Command) -> None:
        command.check_options("limit")
        conditions: dict[str, Callable[[], bool]] = {
            "leader": lambda: self.cluster.leader() is not None,
            "quiet": self._is_quiet,
        }
        reached = self.cluster.run_until(conditions[command.word()], command.number("limit", 5000))
        assert reached, f"{command.where}: `{command.word()}` did not come true"

    def _is_quiet(self) -> bool:
        leader = self.cluster.leader()
        return leader is not None and all(
            one.quorum.leader_id == leader.node_id
            and one.quorum.high_watermark == leader.quorum.log_end_offset
            for one in self.cluster.alive()
        )

    def _messages_command(self, command: Command) -> None:
        self.cluster.note_messages = command.word() == "on"

    def _append_command(self, command: Command) -> list[str]:
        values = [word.encode() for word in command.words[1:]]
        last_offset = self.cluster.append_values(self._replica(command), *values)
        return ["not leader"] if last_offset is None else [f"last offset {last_offset}"]

    def _committed_command(self, command: Command) -> list[str]:
        return [
            f"{batch.base_offset}..{batch.last_offset} epoch {batch.epoch} "
            + ("control" if batch.is_control else b" ".join(batch.records).decode())
            for batch in self._replica(command).state.batches
        ]

    def _kill_command(self, command: Command) -> None:
        self.cluster.kill_node(int(command.word()))

    def _power_cut_command(self, command: Command) -> None:
        self.cluster.cut_power_of(int(command.word()))

    def _suspect_command(self, command: Command) -> None:
        command.check_options("by")
        suspect = int(command.word())
        if "by" not in command.options:
            self.cluster.suspect(suspect)
            return
        replica = self.cluster.replicas[command.number("by")]
        self.cluster.act(
            replica, lambda: replica.quorum.on_peer_suspected(suspect, self.cluster.now)
        )

    def _cut_command(self, command: Command) -> None:
        self.cluster.cut_link(int(command.word()), int(command.word(1)))

    def _cut_way_command(self, command: Command) -> None:
        self.cluster.cut(int(command.word()), int(command.word(1)))

    def _isolate_command(self, command: Command) -> None:
        self.cluster.isolate(int(command.word()))

    def _heal_command(self, command: Command) -> None:
        self.cluster.heal()

    def _hold_disk_command(self, command: Command) -> None:
        self._replica(command).stalled = True

    def _release_disk_command(self, command: Command) -> None:
        self.cluster.disks.resume(self._replica(command))

    def _resign_command(self, command: Command) -> None:
        self.cluster.resign(self._replica(command))

    def _add_voter_command(self, command: Command) -> None:
        self.cluster.add_voter(int(command.word()), int(command.word(1)))

    def _remove_voter_command(self, command: Command) -> None:
        asked, node_id = int(command.word()), int(command.word(1))
        known = self.cluster.replicas[asked].quorum.voters.get(node_id)
        directory_id = None if known is None else known.directory_id
        self.cluster.remove_voter(asked, node_id, directory_id)

    def _wipe_command(self, command: Command) -> None:
        self.cluster.wipe_node(int(command.word()))

    def _upgrade_command(self, command: Command) -> list[str]:
        replica = self._replica(command)
        return [self.cluster.upgrade_to(replica, 1).name]

    def _status_command(self, command: Command) -> list[str]:
        return [f"n{one.node_id} {self._describe(one)}" for one in self.cluster.replicas.values()]

    def _replica(self, command: Command) -> Replica:
        return self.cluster.replicas[int(command.word())]

    @staticmethod
    def _describe(replica: Replica) -> str:
        if not replica.alive:
            return f"down durable_end={replica.durable_end}"
        quorum = replica.quorum
        return (
            f"{quorum.role.name.value} epoch={quorum.epoch} leader={quorum.leader_id} "
            f"log_end={quorum.log_end_offset} durable_end={replica.log.recovery_point} "
            f"high_watermark={quorum.high_watermark}"
        )


@pytest.mark.parametrize("script", scripts_beside(__file__), ids=script_name)
def test_script(script: Path, rewrite_scripts: bool) -> None:
    """The quorum does, line by line, what the script says."""
    run_script(script, Interpreter().run, rewrite=rewrite_scripts)
