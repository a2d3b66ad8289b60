"""Opening the log directories of a node: whose they are, and that they belong together.

Nothing is written before every directory is known to be this node's. The first directory has the
metadata log and must be formatted. Of the others an empty one, a new disk perhaps, gets its
`meta.properties` here, as Kafka gives it one.

| what is found | what happens |
| --- | --- |
| the directory of the metadata log cannot be read | the node does not start |
| another one cannot be opened, read or written | it is offline, the node starts without it |
| another node's or another cluster's directory | the node does not start |
| two directories with the same id | the node does not start |
| a metadata log in another than the first | the node does not start |
| what Apache Kafka left and this software cannot go on with (`unserved.py`) | it does not start |

Source: KIP-858; Kafka's `MetaPropertiesEnsemble`, `LogManager`.
"""

from collections.abc import Sequence

from tidelog.broker.events import DirectoryOfflineAtStart
from tidelog.broker.stored_metadata import CompactedTopics
from tidelog.broker.unserved import hindrances
from tidelog.config import LogConfig, NodeConfig
from tidelog.controller.bootstrap import BOOTSTRAP_FILE, NOTHING_LEFT, FirstRecords, first_records
from tidelog.env.disk import Disk, OfflineDisk
from tidelog.env.effects import EffectQueue, EffectsOfDisk
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace
from tidelog.errors import CorruptBatch, MalformedFrame, StorageError, UsageError
from tidelog.kraft.quorum_state import QuorumStateFile
from tidelog.log.directories import LogDirectories
from tidelog.log.directory import LogDirectory
from tidelog.log.identity import DirectoryIdentity, format_directory, is_formatted, read_identity
from tidelog.log.partition_directories import parse_partition_name
from tidelog.log.pieces import finish
from tidelog.log.tail_cache import TailBudget
from tidelog.log.values import OfflineDirectory
from tidelog.model import METADATA_PARTITION, METADATA_TOPIC_ID, ZERO_UUID, Uuid, uuid_to_text


def open_directories(
    config: NodeConfig,
    disks: Sequence[Disk | OfflineDisk],
    effects: EffectQueue,
    prng: Prng,
    trace: Trace,
    wall_ms: int,
) -> LogDirectories:
    """The log directories with the metadata log, and as many others as a turn may open. Nothing is
    written to a directory that this node must not use. The generator gives an empty one its id.

    Raises `UsageError` for directories that are not this node's, `StorageError` where the first
    cannot be used.
    """
    first = disks[0]
    if isinstance(first, OfflineDisk):
        raise StorageError(first.root, first.error)
    identity = _check_owner(config, first, read_identity(first))
    if config.is_controller and set(config.voters) != {config.node_id}:
        QuorumStateFile.require(first)
    usable, offline = _usable(config, disks, identity, prng)
    # The first directory is opened first, and in it the metadata log.
    compacted = CompactedTopics(first, config.node_id)
    tails = TailBudget()
    online = {}
    for number, (disk, identity) in sorted(usable.items()):
        try:
            online[number] = LogDirectory.open(
                disk,
                identity=identity,
                effects=EffectsOfDisk(effects, number) if number else effects,
                trace=trace,
                default_config=config.log,
                wall_ms=wall_ms,
                most_work=max(1, config.replication.metadata_work_per_turn // len(usable)),
                tails=tails,
                was_compacted=compacted.has,
            )
        except StorageError as error:
            if not number:
                raise
            offline[number] = OfflineDirectory(disk.root, ZERO_UUID, str(error))
    for directory in offline.values():
        trace.event(DirectoryOfflineAtStart(root=directory.root, reason=directory.error))
    _open_metadata_log(config, online[0])
    return LogDirectories(
        online, offline, first_takes_logs=config.metadata_dir_takes_logs or len(disks) == 1
    )


def read_first_records(disk: Disk, trace: Trace, *, is_new: bool) -> FirstRecords:
    """What formatting has left behind for the first active controller. A node that has metadata
    (not `is_new`) starts without a file that is damaged. Raises `UsageError`."""
    data = disk.read_file(BOOTSTRAP_FILE)
    try:
        return first_records(data) if data is not None else NOTHING_LEFT
    except (CorruptBatch, MalformedFrame) as error:
        if not is_new:
            trace.warn(BOOTSTRAP_FILE, "read_first_records", "ignored: it has served", str(error))
            return NOTHING_LEFT
        problem = f"`{disk.root}/{BOOTSTRAP_FILE}` cannot be read: {error}"
        raise UsageError(problem, "format the directory again, or take the file away") from None


def _usable(
    config: NodeConfig, disks: Sequence[Disk | OfflineDisk], first: DirectoryIdentity, prng: Prng
) -> tuple[dict[int, tuple[Disk, DirectoryIdentity]], dict[int, OfflineDirectory]]:
    """The disks that have this node's directories, by number, and the others."""
    usable: dict[int, tuple[Disk, DirectoryIdentity]] = {}
    offline: dict[int, OfflineDirectory] = {}
    ids: dict[Uuid, str] = {}
    empty: dict[int, Disk] = {}
    for number, disk in enumerate(disks):
        if isinstance(disk, OfflineDisk):
            offline[number] = OfflineDirectory(disk.root, ZERO_UUID, disk.error)
            continue
        try:
            if number:
                _check_metadata_log(disk, disks[0].root)
            identity = first if not number else None
            if number and is_formatted(disk):
                identity = read_identity(disk)
            _check_served(disk)
        except StorageError as error:
            if not number:
                raise
            offline[number] = OfflineDirectory(disk.root, ZERO_UUID, str(error))
            continue
        if identity is None:
            empty[number] = disk
        else:
            _check_member(config, disk, identity, first.cluster_id, ids)
            usable[number] = disk, identity
    for number, disk in empty.items():
        identity = first._replace(directory_id=Uuid(prng.uuid()))
        try:
            _format(disk, identity)
        except StorageError as error:
            offline[number] = OfflineDirectory(disk.root, ZERO_UUID, str(error))
        else:
            usable[number] = disk, identity
    return usable, offline


def _check_served(disk: Disk) -> None:
    for hindrance in hindrances(disk):
        raise UsageError(f"`{hindrance.place}`: {hindrance.reason}", hindrance.hint)


def _check_owner(config: NodeConfig, disk: Disk, identity: DirectoryIdentity) -> DirectoryIdentity:
    if identity.node_id != config.node_id:
        raise UsageError(
            f"data directory `{disk.root}` belongs to node `{identity.node_id}`, "
            f"not to node `{config.node_id}`",
            "set `node.id` or `log.dirs` to match, or format another directory",
        )
    return identity


def _check_member(
    config: NodeConfig,
    disk: Disk,
    identity: DirectoryIdentity,
    cluster_id: str,
    ids: dict[Uuid, str],
) -> None:
    """One more directory of the node; `ids` has those before it."""
    _check_owner(config, disk, identity)
    if identity.cluster_id != cluster_id:
        raise UsageError(
            f"data directory `{disk.root}` belongs to cluster `{identity.cluster_id}`, "
            f"another directory of the node to `{cluster_id}`",
            "take the directory that is not this cluster's out of `log.dirs`",
        )
    other = ids.setdefault(identity.directory_id, disk.root)
    if other != disk.root:
        raise UsageError(
            f"`{other}` and `{disk.root}` have the same directory id "
            f"`{uuid_to_text(identity.directory_id)}`",
            "one is a copy of the other: take it out of `log.dirs`, or empty it",
        )


def _check_metadata_log(disk: Disk, metadata_root: str) -> None:
    if disk.exists(str(METADATA_PARTITION)):
        raise UsageError(
            f"`{disk.root}` has a metadata log, and that of this node is in `{metadata_root}`",
            "set `metadata.log.dir` to the directory that has the node's metadata log",
        )


def _format(disk: Disk, identity: DirectoryIdentity) -> None:
    if any(parse_partition_name(name) is not None for name in disk.list_dir()):
        # Raises: there are logs without the file that says whose they are.
        read_identity(disk)
    cluster_id, node_id, directory_id = identity
    format_directory(disk, cluster_id=cluster_id, node_id=node_id, directory_id=directory_id)


def _open_metadata_log(config: NodeConfig, directory: LogDirectory) -> None:
    # The whole metadata log is read anyway. Damage must be found now, not in the middle of replay;
    # what a repair leaves may be damaged, too.
    while not directory.is_sound(METADATA_PARTITION):
        finish(
            directory.repaired(METADATA_PARTITION, METADATA_TOPIC_ID, LogConfig(), remember=True)
        )
    if METADATA_PARTITION not in directory.logs:
        directory.create(METADATA_PARTITION, METADATA_TOPIC_ID, LogConfig())
    elif directory.logs[METADATA_PARTITION].topic_id != METADATA_TOPIC_ID:
        # A power cut may leave the name of the file without its content.
        directory.logs[METADATA_PARTITION].assign_topic_id(METADATA_TOPIC_ID)
    log = directory.logs[METADATA_PARTITION]
    if METADATA_PARTITION not in directory.remembered:
        log.note_flushes(directory.flushed_end)
    # The `log.*` properties are for topics.
    log.reconfigure(
        LogConfig(segment_bytes=config.quorum.segment_bytes, segment_ms=config.quorum.segment_ms)
    )
