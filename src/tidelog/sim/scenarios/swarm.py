"""What a seed decides before anything happens: sizes, timers, habits of clients, kinds of faults.

Swarm testing (Groce and others, 2012): a run that can do everything does a little of everything,
and so never reaches the states that need a lot of one thing. So every seed first draws which
faults and habits exist at all in its run, how often they occur, and how the cluster is configured;
then the run draws from what is left.

Each purpose has a generator of its own, derived from the seed and the purpose's name: one more draw
for the faults does not change what the clients do.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Final, TypeVar

import crc32c

from tidelog import limits
from tidelog.config import NodeConfig, profile_settings
from tidelog.env.prng import Prng
from tidelog.sim.engine import secured
from tidelog.sim.engine.work import FREE, HARDWARE, SLOW, SLOW_MAKE_DIR, SLOW_SYNC, USUAL
from tidelog.sim.scenarios.fault_kinds import DAMAGE, REPORTED, Aim, DiskFault, FaultKind

T = TypeVar("T")
RACKS: Final = 3
RACK_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
UNCLEAN_ELECTIONS: Final = "unclean.leader.election.enable"
COMPOSITIONS: Final = (*((3, 0),) * 9, (1, 0), (5, 0), (3, 3))
"""(Brokers, separate controllers), as often as they are here."""
KEYED_POLICIES: Final = ("compact", "compact,delete", "delete")
MACHINES: Final = (*(FREE,) * 2, *(USUAL,) * 3, SLOW, SLOW_MAKE_DIR, SLOW_SYNC)
"""Hardware, as often as it is here."""
LONGEST_FLUSH_MS: Final = 20
"""Where a flush takes longer, no member of a classic group gets through a transaction within its
session."""
FAULT_MS: Final = (5_000, 8_000, 12_000)


def stream(seed: int, purpose: str) -> Prng:
    """The generator of one purpose of one seed."""
    salt: int = crc32c.crc32c(purpose.encode())
    return Prng((seed << 32) ^ (salt * 0x9E3779B97F4A7C15))


def some(prng: Prng, *kinds: T) -> tuple[T, ...]:
    """Some of these, in order, at least one."""
    return tuple(kind for kind in kinds if prng.chance(2, 3)) or (prng.choice(kinds),)


THROTTLED_REPLICAS: Final = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
"""All replicas of a topic, where followers that lag are throttled."""

MEMBER_SETTINGS: Final = {
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
}
"""Members that died are noticed within the run, whatever the profile."""


CLASSIC_SETTINGS: Final = {
    "group.min.session.timeout.ms": "100",
    "group.initial.rebalance.delay.ms": "100",
}
"""The same for members of classic groups, whose sessions are what they ask for."""


SHARER_SETTINGS: Final = {
    "group.share.record.lock.duration.ms": "1000",
    "group.share.delivery.count.limit": "5",
}
"""Records of members that died are delivered again within the run."""


@dataclass(frozen=True, slots=True)
class Swarm:
    """The options of one run."""

    nodes: int
    """Brokers; controllers too, unless there are `controllers`."""
    controllers: int
    """Nodes that are only controllers; 0 for none."""
    profile: str
    """Timers: Kafka's (`default`), short ones (`test`), or short ones without early detection."""
    group_commit: bool
    """All topics have `flush.messages=1`: any number of power cuts is within the promise (P2).
    Otherwise P1 and P3 hold, and the budget keeps lossy restarts apart."""
    topics: int
    partitions: int
    segment_bytes: int
    producers: tuple[str, ...]
    """Kinds of producers, by `Acks`."""
    codec: int
    consumers: int
    follower_reads: bool
    """Some consumers read from any replica, whatever the leader says."""
    racks: bool
    """Brokers and consumers are in racks, and leaders send consumers to theirs (KIP-392)."""
    records_per_second: int
    batch_records: int
    client_timeout_ms: int
    admin_gap_ms: int
    """Mean time between changes of topics; 0 for none."""
    operator_gap_ms: int
    """Mean time between reassignments, elections and changes of configs; 0 for none."""
    rewind_gap_ms: int
    """Mean time between consumers that start anew; 0 for none."""
    faults: tuple[FaultKind, ...]
    fault_gap_ms: int
    """Mean time between two faults."""
    fault_length_ms: int
    """How long a fault lasts at most, where it lasts."""
    split_percent: int
    flush_ms: int
    """Longest usual flush."""
    fault_phase_ms: int
    disk_faults: tuple[DiskFault, ...] = ()
    """Strike beside the others, by the same rules of time."""
    damaged_files: tuple[str, ...] = ()
    """Kinds of files that damage may hit; empty for all."""
    restart_at_end: bool = False
    """All nodes restart once more before the judgement, without power where the promise allows."""
    snapshot_bytes: int = 20 << 20
    """Bytes of metadata between two snapshots."""
    metadata_retention_bytes: int = 100 << 20
    """Of the metadata log and its snapshots: what is beyond must be caught up with by snapshot."""
    metadata_segment_bytes: int = 1 << 30
    voters_in_log: bool = False
    """The voters stand in the metadata log (`kraft.version` 1) and not in the configuration."""
    voter_gap_ms: int = 0
    """Mean time between voters that are added or removed; 0 for none."""
    hardware: str = FREE
    """What work costs, by the names of `HARDWARE`."""
    unclean_elections: str = ""
    """Where `unclean.leader.election.enable` is true: on all `topics`, in the `cluster`, or nowhere
    if empty."""
    metadata_work: int = limits.REPLICA_WORK_PER_TURN
    """Of a turn, to follow the metadata. Where it is little, replicas are often late."""
    cleaner_backoff_ms: int = 15_000
    """Time between two looks of a cleaner; where it is short, offsets of groups are compacted."""
    committers: int = 0
    """Groups for which clients commit offsets; none where what is committed may be lost."""
    members: int = 0
    """Members of one consumer group (KIP-848), where there are committers."""
    transactors: int = 0
    """Clients that write transactions; likewise."""
    keyed: tuple[str, ...] = ()
    """The settings of a topic whose records do not stay, as `name=value`; none for no such topic.
    Likewise."""
    sharers: int = 0
    """Members of one share group (KIP-932); likewise."""
    copiers: int = 0
    """Members of a classic group that copies a topic in transactions; likewise."""
    readers: int = 0
    """Members of a classic group that reads the same topic; likewise."""
    disks: int = 1
    """Log directories of a node, each on a disk of its own."""
    disk_move_gap_ms: int = 0
    """Between two moves of a replica between the disks of its node; 0 for none."""
    throttled_rate: int = 0
    """Bytes a second that followers which lag, moves and cleaners may move; 0 for no bound."""
    secured: bool = False
    """Nodes and clients log in, and an authorizer decides (`engine/secured.py`)."""
    session_ms: int = 0
    """How long a login is good for; 0 for ever."""
    rights_gap_ms: int = 0
    """Between two changes of passwords and rights; 0 for none."""
    aims: tuple[Aim, ...] = ()
    """What aimed faults follow (`faults/ambush.py`); none for no such faults."""
    aimed_faults: tuple[FaultKind | DiskFault, ...] = ()
    """Their kinds."""

    @property
    def damages(self) -> bool:
        """Whether bytes on disks change by themselves."""
        return any(fault.damages for fault in self.disk_faults)

    @property
    def is_patient(self) -> bool:
        """Whether the timers are Kafka's and snapshots rare, whatever was drawn: a disk that takes
        100 ms for each flush does not keep up with sessions of half a second."""
        hardware = HARDWARE[self.hardware]
        return hardware is not None and bool(hardware.slow)

    @property
    def flush_range_ms(self) -> tuple[int, int]:
        """How long a flush takes, while nothing makes it slower."""
        hardware = HARDWARE[self.hardware]
        slow = None if hardware is None else hardware.flush_ms
        return slow or (0, self.flush_ms)

    @property
    def one_copy_is_enough(self) -> bool:
        """Whether a topic may be turned down to a min ISR of one without leaving the promise: the
        one device keeps what it has."""
        return self.group_commit and not self.damages

    def settings(self) -> dict[str, str]:
        """The node properties of this run."""
        is_default = self.profile == "default" or self.is_patient
        settings = profile_settings("default" if is_default else "test", self.nodes)
        settings["auto.create.topics.enable"] = "false"
        if self.disks > 1:
            settings["log.dirs"] = ",".join(f"data{number}" for number in range(self.disks))
        if self.members:
            settings |= MEMBER_SETTINGS
        if self.copiers or self.readers:
            settings |= CLASSIC_SETTINGS
        if self.sharers:
            settings |= SHARER_SETTINGS
        if self.secured:
            settings |= secured.settings(self.session_ms)
        if self.profile == "kafka":
            settings["tidelog.broker.disconnect.grace.ms"] = "0"
        if self.unclean_elections == "cluster":
            settings[UNCLEAN_ELECTIONS] = "true"
        if self.racks:
            settings["replica.selector.class"] = RACK_SELECTOR
        return settings

    def tweak(self, config: NodeConfig) -> NodeConfig:
        """What differs between nodes, and values beyond what the properties allow: small segments
        roll often."""
        snapshot_bytes = (20 << 20) if self.is_patient else self.snapshot_bytes
        config = replace(
            config,
            log=replace(
                config.log,
                segment_bytes=self.segment_bytes,
                min_cleanable_dirty_ratio=0.5 if self.cleaner_backoff_ms > 1000 else 0.01,
                file_delete_delay_ms=4 * self.cleaner_backoff_ms,
            ),
            replication=replace(
                config.replication,
                metadata_work_per_turn=self.metadata_work,
                cleaner_backoff_ms=self.cleaner_backoff_ms,
                cleaner_io_max_bytes_per_second=10.0 * self.throttled_rate or sys.float_info.max,
                retention_check_interval_ms=500 if self.keyed else 300_000,
            ),
            quorum=replace(
                config.quorum,
                max_record_bytes_between_snapshots=snapshot_bytes,
                max_retention_bytes=self.metadata_retention_bytes,
                segment_bytes=self.metadata_segment_bytes,
                fetch_snapshot_max_bytes=min(1 << 20, snapshot_bytes),
            ),
        )
        if not self.racks:
            return config
        return replace(config, rack=f"rack{config.node_id % RACKS}")

    def topic_configs(self) -> Mapping[str, str]:
        """Of every topic that the workload creates."""
        configs = {"flush.messages": "1"} if self.group_commit else {}
        if self.throttled_rate:
            configs |= dict.fromkeys(THROTTLED_REPLICAS, "*")
        return configs | ({UNCLEAN_ELECTIONS: "true"} if self.unclean_elections == "topics" else {})

    def keyed_topic_configs(self) -> Mapping[str, str]:
        """Of the topic whose records do not stay; empty for none."""
        configs = dict(setting.split("=") for setting in self.keyed)
        return configs and dict(self.topic_configs()) | configs

    def describe(self) -> str:
        """One line, printed before a run."""
        parts = []
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, tuple):
                value = ",".join(getattr(one, "value", str(one)) for one in value) or "none"
            parts.append(f"{item.name}={value}")
        return " ".join(parts)


def draw(seed: int) -> Swarm:
    """The options of a seed; a fifth of the seeds has logins and rights, whatever its disks do."""
    swarm, logins = draw_with_disks(seed), stream(seed, "swarm of the logins")
    return on_secured(swarm, logins) if logins.chance(1, 5) else swarm


def on_secured(swarm: Swarm, prng: Prng) -> Swarm:
    """Nodes and clients log in, and a client without rights tries what it can."""
    return replace(
        swarm,
        secured=True,
        session_ms=prng.choice((0, 0, 1_500, 4_000)),
        rights_gap_ms=prng.choice((0, 300, 1_500)),
    )


def draw_with_disks(seed: int) -> Swarm:
    """The options of an open cluster; in a fifth of the seeds disks go wrong (P4, P7), and in a
    fifth of the others nodes have several."""
    swarm, prng = draw_plain(seed), stream(seed, "swarm of the disks")
    several = stream(seed, "swarm of the directories")
    if not prng.chance(1, 5):
        return on_several_disks(swarm, several) if several.chance(1, 5) else swarm
    if prng.chance(1, 2):
        return on_damaged_disks(swarm, prng)
    disk_faults = some(prng, *REPORTED, DiskFault.STALL)
    return replace(swarm, disk_faults=disk_faults, restart_at_end=True)


def on_several_disks(swarm: Swarm, prng: Prng) -> Swarm:
    """Nodes with two or three disks, of which all but the first may die, and replicas that move."""
    return replace(
        swarm,
        disks=prng.between(2, 3),
        disk_faults=(DiskFault.DISK_DIES,),
        disk_move_gap_ms=prng.choice((200, 200, 1_000)),
    )


DAMAGED_METADATA: Final = (
    "index",
    "timeindex",
    "snapshot",
    "checkpoint",
    "leader-epoch-checkpoint",
)
"""By suffix or name. A voter without `quorum-state` refuses to start: an operator's case (P6)."""


def on_damaged_disks(swarm: Swarm, prng: Prng) -> Swarm:
    """Three copies, bytes that change by themselves, and no more than P4 allows beside it: the
    metadata log may be damaged, or the only witness of what it held, and not both (seed
    1783182686)."""
    damaged_metadata = (*DAMAGED_METADATA, prng.choice(("log", "log", "flushed-end")))
    return replace(
        swarm,
        faults=some(prng, FaultKind.KILL, FaultKind.CLEAN_STOP, FaultKind.PAUSE),
        nodes=3,
        controllers=0,
        disk_faults=some(prng, *DAMAGE),
        committers=0,
        members=0,
        transactors=0,
        keyed=(),
        sharers=0,
        copiers=0,
        readers=0,
        damaged_files=("data", *(f"metadata {kind}" for kind in damaged_metadata)),
        restart_at_end=True,
    )


def draw_keyed(prng: Prng, policy: str) -> tuple[str, ...]:
    """The settings of a topic whose records do not stay; none without a policy."""
    if not policy:
        return ()
    settings = [f"cleanup.policy={policy}"]
    if "compact" in policy:
        settings.append(f"delete.retention.ms={prng.choice((1_000, 86_400_000))}")
        settings.append(f"min.compaction.lag.ms={prng.choice((0, 0, 2_000))}")
        settings.append("min.cleanable.dirty.ratio=0.01")
    if "delete" in policy:
        settings.append(f"retention.ms={prng.choice((-1, 500, 5_000))}")
        settings.append(f"retention.bytes={prng.choice((-1, 500, 4_000))}")
    return tuple(settings)


def _without_the_hasty(swarm: Swarm) -> Swarm:
    """No members of classic groups where the disks are too slow for them."""
    is_slow = max(swarm.flush_range_ms) > LONGEST_FLUSH_MS
    return replace(swarm, copiers=0, readers=0) if is_slow else swarm


def draw_plain(seed: int) -> Swarm:
    """The options of a seed on disks that keep what they hold."""
    prng = stream(seed, "swarm")
    metadata = stream(seed, "swarm of the metadata log")
    voters = stream(seed, "swarm of the voters")
    slices = stream(seed, "swarm of the slices")
    keyed = stream(seed, "swarm of the keyed topic")
    classic = stream(seed, "swarm of the classic groups")
    voters_in_log = voters.chance(1, 4)
    committers = stream(seed, "swarm of the groups").choice((0, 0, 1, 3))
    group_commit = prng.chance(1, 2)
    kinds = [kind for kind in FaultKind if group_commit or not kind.needs_group_commit]
    share = prng.choice((1, 2, 3))
    faults = tuple(kind for kind in kinds if prng.chance(share, 6)) or (prng.choice(kinds),)
    profile = prng.choice(("test", "test", "kafka", "default"))
    patience = 4 if profile == "default" else 1
    nodes, controllers = prng.choice(COMPOSITIONS)
    acks = ("idempotent", "idempotent", "all", "leader", "none")
    swarm = Swarm(
        nodes=nodes,
        controllers=controllers,
        profile=profile,
        group_commit=group_commit,
        topics=prng.between(1, 2),
        partitions=prng.between(1, 3),
        segment_bytes=prng.choice((1024, 4096, 1 << 20)),
        producers=tuple(sorted(prng.choice(acks) for _ in range(prng.between(1, 3)))),
        codec=prng.choice((0, 0, 0, 1, 2, 3, 4)),
        consumers=prng.between(1, 2),
        follower_reads=prng.chance(1, 4),
        racks=prng.chance(1, 4),
        records_per_second=prng.choice((5, 20, 60)),
        batch_records=prng.choice((1, 3, 20)),
        client_timeout_ms=prng.choice((1_500, 4_000)),
        admin_gap_ms=prng.choice((0, 0, 2_000, 500)),
        operator_gap_ms=prng.choice((0, 0, 1_500, 400)),
        rewind_gap_ms=prng.choice((0, 3_000)),
        faults=faults,
        fault_gap_ms=prng.choice((150, 400, 1_200)) * patience,
        fault_length_ms=prng.choice((300, 1_500, 5_000)) * patience,
        split_percent=prng.choice((0, 0, 20)),
        flush_ms=prng.choice((2, 2, 20, 100)),
        fault_phase_ms=prng.choice(FAULT_MS) * (3 if profile == "default" else 1),
        snapshot_bytes=metadata.choice((1_000, 4_000, 20 << 20)),
        metadata_retention_bytes=metadata.choice((0, 5_000, 100 << 20)),
        metadata_segment_bytes=metadata.choice((1_000, 1 << 14, 1 << 30)),
        voters_in_log=voters_in_log,
        voter_gap_ms=voters.choice((0, 400, 2_000)) if voters_in_log else 0,
        hardware=stream(seed, "swarm of the hardware").choice(MACHINES),
        cleaner_backoff_ms=stream(seed, "swarm of the cleaner").choice((100, 1000, 15_000)),
        metadata_work=slices.choice((1, 10, 300, limits.REPLICA_WORK_PER_TURN)),
        committers=committers,
        members=stream(seed, "swarm of the members").choice((0, 2, 4)) if committers else 0,
        transactors=stream(seed, "swarm of the transactions").choice((0, 0, 1, 2)),
        keyed=draw_keyed(keyed, keyed.choice(("", "", *KEYED_POLICIES))),
        sharers=stream(seed, "swarm of the sharers").choice((0, 2, 3)) if committers else 0,
        copiers=classic.choice((0, 0, 0, 1, 3)),
        readers=classic.choice((0, 0, 0, 2, 3)),
        throttled_rate=stream(seed, "swarm of the throttles").choice((0, 0, 10_000, 100_000)),
    )
    return _without_the_hasty(swarm)
