"""The identity of a log directory: `meta.properties`, written once by formatting.

Source: Kafka's `MetaPropertiesEnsemble`.
"""

from typing import NamedTuple

from tidelog.env.disk import Disk
from tidelog.errors import UsageError
from tidelog.log.checkpoint import (
    META_PROPERTIES_FILE,
    CheckpointDamaged,
    decode_properties,
    encode_meta_properties,
)
from tidelog.log.partition_directories import parse_partition_name
from tidelog.model import Uuid, uuid_from_text


class DirectoryIdentity(NamedTuple):
    """The content of `meta.properties`."""

    cluster_id: str
    node_id: int
    directory_id: Uuid


def format_directory(disk: Disk, *, cluster_id: str, node_id: int, directory_id: Uuid) -> None:
    """Writes `meta.properties`. Raises `UsageError` when the directory is formatted already."""
    require_unformatted(disk)
    disk.replace(META_PROPERTIES_FILE, encode_meta_properties(cluster_id, node_id, directory_id))


def require_unformatted(disk: Disk) -> None:
    """Raises `UsageError` when the directory has a `meta.properties`."""
    if is_formatted(disk):
        raise UsageError(
            f"log directory `{disk.root}` is already formatted",
            "use it as it is, or choose an empty directory",
        )


def is_formatted(disk: Disk) -> bool:
    """Whether the directory has a `meta.properties`."""
    return disk.exists(META_PROPERTIES_FILE)


def read_identity(disk: Disk) -> DirectoryIdentity:
    """The identity of the directory. Raises `UsageError` when it has none that can be read."""
    data = disk.read_file(META_PROPERTIES_FILE)
    if data is None:
        if any(parse_partition_name(name) is not None for name in disk.list_dir()):
            raise UsageError(
                f"`{disk.root}/{META_PROPERTIES_FILE}` is missing from a directory with logs",
                "restore the file: cluster, node and directory id are in the node's log, and "
                "in the metadata of other nodes",
            )
        raise UsageError(
            f"log directory `{disk.root}` is not formatted",
            "run `tidelog format FILE.properties --cluster-id ID` first",
        )
    try:
        properties = decode_properties(data)
        if properties["version"] != "1":
            raise UsageError(
                f"`{disk.root}/{META_PROPERTIES_FILE}` has version `{properties['version']}`",
                "only version 1 is known; upgrade the directory with Kafka 3.7 or later",
            )
        return DirectoryIdentity(
            properties["cluster.id"],
            int(properties["node.id"]),
            uuid_from_text(properties["directory.id"]),
        )
    except (CheckpointDamaged, KeyError, ValueError) as error:
        detail = f"it has no `{error.args[0]}`" if isinstance(error, KeyError) else error
        raise UsageError(
            f"`{disk.root}/{META_PROPERTIES_FILE}` cannot be used: {detail}",
            "restore the file, or format an empty directory",
        ) from None
