"""Formatting a node's data directory, as Kafka's storage tool does."""

import time
import uuid
from typing import Final

from tidelog.config import NodeConfig
from tidelog.errors import UsageError
from tidelog.kraft.voters import write_first_voters
from tidelog.log.identity import format_directory, is_formatted, read_identity, require_unformatted
from tidelog.model import Uuid, uuid_to_text
from tidelog.runtime.first_voters import FirstVoters, decide_first_voters
from tidelog.runtime.os_disk import OsDisk

NO_CHOICE: Final = FirstVoters()


def new_uuid() -> Uuid:
    """A random UUID whose text form begins with no dash, because it is given to tools."""
    while True:
        value = Uuid(uuid.uuid4().bytes)
        if not uuid_to_text(value).startswith("-"):
            return value


def format_node(
    config: NodeConfig,
    cluster_id: str,
    *,
    ignore_formatted: bool = False,
    first_voters: FirstVoters = NO_CHOICE,
) -> bool:
    """Writes `meta.properties` into a node's data directory, which is made when missing, and before
    that the first voters of a quorum that keeps them in its log. Returns false for a directory that
    was formatted already and is to be left alone. Raises `UsageError` when it is formatted, for
    another cluster even if it would be left alone, or is not empty and no data directory."""
    voters, directory_id = decide_first_voters(config, first_voters, new_uuid())
    disk = OsDisk(config.log_dir)
    disk.lock()
    try:
        if is_formatted(disk):
            if ignore_formatted:
                _require_cluster(disk, cluster_id)
                return False
            require_unformatted(disk)
        elif others := [name for name in disk.list_dir() if name != ".lock"]:
            raise UsageError(
                f"`{config.log_dir}` is not empty and no data directory: it has `{others[0]}`",
                "choose an empty directory in `log.dirs`",
            )
        if voters:
            write_first_voters(disk, voters, time.time_ns() // 1_000_000)
        format_directory(
            disk, cluster_id=cluster_id, node_id=config.node_id, directory_id=directory_id
        )
    finally:
        disk.unlock()
    return True


def _require_cluster(disk: OsDisk, cluster_id: str) -> None:
    found = read_identity(disk).cluster_id
    if found != cluster_id:
        raise UsageError(
            f"data directory `{disk.root}` belongs to cluster `{found}`, not to `{cluster_id}`",
            "correct `log.dirs` or the cluster id, or format another directory",
        )
