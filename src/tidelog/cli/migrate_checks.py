"""What `tidelog migrate` finds: in one node's files, which are only read, and in a cluster.

A finding hinders or is a note. What hinders has the reason why a node of Tidelog would refuse to
start, would not be admitted, or would lose something. What a start refuses is found by the same
code as the start's (`broker/unserved.py`, `log/identity.py`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from tidelog.broker.features import METADATA, OLDEST_PARTNER, lowering, unserved
from tidelog.broker.stored_metadata import read_metadata
from tidelog.broker.unserved import TIERED, hindrances
from tidelog.client import AdminClient
from tidelog.client.core.descriptions import NodeDescription, QuorumDescription
from tidelog.config import NodeConfig, parse_properties
from tidelog.errors import StorageError, UsageError
from tidelog.log.identity import is_formatted, read_identity
from tidelog.model import METADATA_PARTITION
from tidelog.runtime.node_file import read_node_config
from tidelog.runtime.os_disk import OsDisk

_TIERING: Final = "remote.log.storage.system.enable"


class Severity(StrEnum):
    """What a finding means for the change."""

    HINDERS = "hinders"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found."""

    severity: Severity
    place: str
    reason: str
    hint: str


@dataclass(slots=True)
class NodeFindings:
    """What one node's files have."""

    findings: list[Finding] = field(default_factory=list)
    cluster_ids: dict[str, str] = field(default_factory=dict)
    """By directory."""

    def hinders(self, place: object, reason: str, hint: str) -> None:
        """Adds something that hinders."""
        self.findings.append(Finding(Severity.HINDERS, str(place), reason, hint))


# One node ------------------------------------------------------------------------------------


def check_node(file: Path) -> NodeFindings:
    """Reads a properties file and the directories that it names. Raises `UsageError` for a file
    that cannot be read."""
    found = NodeFindings()
    if not file.is_file():
        raise UsageError(f"`{file}` is not a file", "give the path of a node's properties file")
    try:
        config = read_node_config(file)
    except UsageError as error:
        found.hinders(file, error.message, error.hint)
        return found
    for name, instead in config.without_effect.items():
        text = f"`{name}` has no effect here: {instead}"
        found.findings.append(
            Finding(Severity.NOTE, str(file), text, "count on what holds instead")
        )
    if config.ignored:
        names = ", ".join(f"`{name}`" for name in config.ignored)
        text = f"only Kafka's own parts read these, and they are ignored here: {names}"
        found.findings.append(Finding(Severity.NOTE, str(file), text, "the lines may stay"))
    for name, advice in config.unknown.items():
        text = f"`{name}` is unknown to Kafka 4.3 and ignored here, as it is there"
        found.findings.append(
            Finding(Severity.NOTE, str(file), text, advice or "the line may stay")
        )
    if config.exposed:
        names = ", ".join(f"`{name}`" for name in config.exposed)
        text = f"every user of the machine may read its secrets: {names}"
        found.findings.append(Finding(Severity.NOTE, str(file), text, f"run `chmod 600 {file}`"))
    if parse_properties(file.read_text(encoding="utf-8")).get(_TIERING) == "true":
        text = f"`{_TIERING}` is `true`, and there is no tiered storage here"
        hint = f"no topic may have `{TIERED}`; the line itself is accepted"
        found.findings.append(Finding(Severity.NOTE, str(file), text, hint))
    for number, directory in enumerate(config.all_log_dirs):
        try:
            _check_directory(config, directory, number == 0, found)
        except UsageError as error:
            found.hinders(directory, error.message, error.hint)
        except StorageError as error:
            found.hinders(error.path, str(error), "correct what the message says, then check again")
    if len(set(found.cluster_ids.values())) > 1:
        shown = ", ".join(f"`{name}`: `{one}`" for name, one in found.cluster_ids.items())
        hint = "take the directory that is not this cluster's out of `log.dirs`"
        found.hinders(file, f"the directories belong to different clusters: {shown}", hint)
    return found


def _check_directory(config: NodeConfig, root: str, is_first: bool, found: NodeFindings) -> None:
    if not Path(root).is_dir():
        raise UsageError(f"`{root}` does not exist", "correct `log.dirs`")
    disk = OsDisk(root)
    if not is_first and not is_formatted(disk) and not disk.list_dir():
        return
    identity = read_identity(disk)
    found.cluster_ids[root] = identity.cluster_id
    if identity.node_id != config.node_id:
        found.hinders(
            f"{root}/meta.properties",
            f"the directory belongs to node `{identity.node_id}`, the file says `{config.node_id}`",
            "set `node.id` or `log.dirs` to match",
        )
    for each in hindrances(disk):
        found.hinders(*each)
    if disk.exists(str(METADATA_PARTITION)):
        _check_metadata(disk, found)


def _check_metadata(disk: OsDisk, found: NodeFindings) -> None:
    try:
        features = read_metadata(disk).features
    except StorageError as error:
        if error.path not in {each.place for each in found.findings}:
            raise
        return
    for each in unserved(features):
        found.hinders(f"{disk.root}/{METADATA_PARTITION}", str(each), f"`{lowering([each])}`")


# A cluster -----------------------------------------------------------------------------------


def check_cluster(admin: AdminClient, cluster_ids: Mapping[str, str]) -> Iterator[Finding]:
    """What is wrong in a running cluster; `cluster_ids`, by directory, of nodes checked before."""
    cluster = admin.describe_cluster()
    for directory, cluster_id in cluster_ids.items():
        if cluster_id != cluster.cluster_id:
            reason = f"it belongs to cluster `{cluster_id}`, the brokers to `{cluster.cluster_id}`"
            hint = "correct `log.dirs`, or ask the brokers of the directory's own cluster"
            yield Finding(Severity.HINDERS, directory, reason, hint)
    for node in cluster.nodes:
        yield from _check_broker(admin, node)
    behind, tiered = 0, []
    names = admin.list_topics()
    for topic in admin.describe_topics(names, configs=True) if names else ():
        behind += sum(set(one.isr) != set(one.replicas) for one in topic.partitions)
        if (topic.configs or {}).get(TIERED) == "true":
            tiered.append(topic.name)
    for name in tiered:
        hint = f"switch it off: `{TIERED}=false`, `remote.log.delete.on.disable=true`"
        yield Finding(Severity.HINDERS, f"topic {name}", "has segments in a remote tier", hint)
    if behind:
        reason = f"{behind} partitions have replicas that are not in sync"
        hint = "wait: a node that stops now may leave them without enough replicas"
        yield Finding(Severity.HINDERS, "cluster", reason, hint)


def _check_broker(admin: AdminClient, node: NodeDescription) -> Iterator[Finding]:
    place = f"broker {node.node_id}"
    if node.fenced:
        hint = "start it, or unregister it, before any other node stops"
        yield Finding(Severity.HINDERS, place, "it is fenced", hint)
        return
    features = admin.describe_features(node.address)
    _, highest = features.supported.get(METADATA, (0, 0))
    if highest < OLDEST_PARTNER:
        reason = f"it runs `{METADATA}` {highest} at most, older than Kafka 3.9's {OLDEST_PARTNER}"
        yield Finding(Severity.HINDERS, place, reason, "upgrade Kafka to 3.9 or later first")
    for each in unserved(features.finalised):
        yield Finding(Severity.HINDERS, place, str(each), f"`{lowering([each])}`")


# The order -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Step:
    """One node's change."""

    node_id: int
    role: str
    why: str
    do: tuple[str, ...]
    """What an operator does and watches, in this order."""


def plan_steps(admin: AdminClient, to: str) -> list[Step]:
    """Brokers first, voters next, the quorum's leader last: it hands over once."""
    quorum, cluster = admin.describe_quorum(), admin.describe_cluster()
    brokers = {node.node_id: node for node in cluster.nodes}
    voters = {voter.node_id for voter in quorum.voters}

    def rank(node_id: int) -> tuple[bool, bool, int]:
        return node_id == quorum.leader_id, node_id in voters, node_id

    return [
        _step(node_id, brokers.get(node_id), quorum, to)
        for node_id in sorted(brokers.keys() | voters, key=rank)
    ]


_START: Final = {"tidelog": "tidelog server FILE", "kafka": "kafka-server-start.sh -daemon FILE"}


def _step(node_id: int, broker: NodeDescription | None, quorum: QuorumDescription, to: str) -> Step:
    is_voter = any(voter.node_id == node_id for voter in quorum.voters)
    role = ",".join(["broker"] * (broker is not None) + ["controller"] * is_voter)
    if node_id == quorum.leader_id:
        why = "the active controller last: the quorum elects once"
    elif is_voter:
        why = "voters one by one, so that a majority always runs"
    else:
        why = "only a broker: no vote is missing while it stops"
    watch = ["`tidelog quorum describe --bootstrap-server HOST:PORT`: lag 0 again"] * is_voter
    if broker is not None:
        watch.append(
            "`tidelog topics describe --bootstrap-server HOST:PORT`: every ISR is full again"
        )
    return Step(
        node_id,
        role,
        why,
        (
            "for each node, in this order:",
            "1. stop it cleanly (SIGTERM), and wait until the process has ended",
            f"2. start the other program with the same FILE: `{_START[to]}`",
            *(f"{number}. wait for {text}" for number, text in enumerate(watch, 3)),
            "then the next node; to go back, stop it and start the former program again",
        ),
    )
