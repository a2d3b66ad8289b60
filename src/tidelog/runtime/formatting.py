"""Formatting a node's log directories, as Kafka's storage tool does.

A quorum whose voter set is in its log gets its first voters from formatting.
An operator gives a controller without `controller.quorum.voters` the first voters once (KIP-853):

- `--standalone`: this node alone; others join later.
- `--initial-controllers ID@HOST:PORT:DIRECTORY,…`: the same list on all of them, with the directory
  id that each of them gets.
- `--no-initial-controllers`: a node of a quorum that exists. It asks the bootstrap servers for the
  leader, follows it, and may become a voter.

`--add-scram` makes users of SCRAM before there is a cluster to log in to (KIP-900). They go into
`bootstrap.checkpoint`, from which the first active controller takes them (`first_users.py`).

The answer is the snapshot at offset 0, `0-0.checkpoint`, with a KRAFT_VERSION and a VOTERS record.

Source: KIP-853; Kafka's `FormatCommand` and `DynamicVoters`.
"""

import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from tidelog.config import NodeConfig
from tidelog.controller.bootstrap import BOOTSTRAP_FILE, bootstrap_file
from tidelog.errors import StorageError, UsageError
from tidelog.kraft.messages import Voter
from tidelog.kraft.voters import by_id, write_first_voters
from tidelog.log.identity import format_directory, is_formatted, read_identity, require_unformatted
from tidelog.metadata.records import UserScramCredentialRecord
from tidelog.model import RESERVED_DIRECTORY_IDS, Endpoint, Uuid, uuid_from_text, uuid_to_text
from tidelog.runtime.log_directories import require_different
from tidelog.runtime.os_disk import OsDisk

_CHOICES: Final = "`--standalone`, `--initial-controllers` or `--no-initial-controllers`"
_VOTER_HINT: Final = (
    "write it like `1@localhost:9093:8o2mlfZ2TLmuyc9w0cFR0Q`, with the same list on every "
    "controller; `tidelog random-uuid` makes a directory id"
)


@dataclass(frozen=True, slots=True)
class FirstVoters:
    """The operator's choice of the first voters."""

    standalone: bool = False
    initial_controllers: str | None = None
    no_initial_controllers: bool = False

    @property
    def count(self) -> int:
        """How many of the three were given."""
        given = (self.standalone, self.initial_controllers is not None, self.no_initial_controllers)
        return sum(given)


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
    first_users: Sequence[UserScramCredentialRecord] = (),
) -> bool:
    """Writes `meta.properties` into each of a node's log directories, which are made when missing,
    and before that the first voters of a quorum that keeps them in its log, and the first users.
    Directories that were formatted already may be left alone; returns whether there were others.
    Raises `UsageError` when one is formatted, for another cluster even if it would be left alone,
    or is not empty and no data directory."""
    voters, directory_id = decide_first_voters(config, first_voters, new_uuid())
    require_different(config.all_log_dirs)
    written = False
    with ExitStack() as stack:
        disks = _open_all(config, stack, leaves_out=ignore_formatted)
        unformatted = [disk for disk in disks if _is_to_format(disk, cluster_id, ignore_formatted)]
        for disk in unformatted:
            if disk is disks[0] and voters:
                write_first_voters(disk, voters, time.time_ns() // 1_000_000)
            if disk is disks[0] and first_users:
                content = bootstrap_file(first_users, time.time_ns() // 1_000_000)
                disk.replace(BOOTSTRAP_FILE, content)
            format_directory(
                disk,
                cluster_id=cluster_id,
                node_id=config.node_id,
                directory_id=directory_id if disk is disks[0] else new_uuid(),
            )
            written = True
    return written


def _open_all(config: NodeConfig, stack: ExitStack, *, leaves_out: bool) -> list[OsDisk]:
    """Each directory, locked. With `leaves_out` another than the first may be unusable: a node that
    is formatted starts without it."""
    disks: list[OsDisk] = []
    for directory in config.all_log_dirs:
        try:
            disk = OsDisk(directory)
            disk.lock()
        except StorageError:
            if not (disks and leaves_out):
                raise
        else:
            stack.callback(disk.unlock)
            disks.append(disk)
    return disks


def _is_to_format(disk: OsDisk, cluster_id: str, ignore_formatted: bool) -> bool:
    if is_formatted(disk):
        if ignore_formatted:
            _require_cluster(disk, cluster_id)
            return False
        require_unformatted(disk)
    elif others := [name for name in disk.list_dir() if name != ".lock"]:
        raise UsageError(
            f"`{disk.root}` is not empty and no data directory: it has `{others[0]}`",
            "choose an empty directory in `log.dirs`",
        )
    return True


def _require_cluster(disk: OsDisk, cluster_id: str) -> None:
    found = read_identity(disk).cluster_id
    if found != cluster_id:
        raise UsageError(
            f"data directory `{disk.root}` belongs to cluster `{found}`, not to `{cluster_id}`",
            "correct `log.dirs` or the cluster id, or format another directory",
        )


def decide_first_voters(
    config: NodeConfig, choice: FirstVoters, new_directory_id: Uuid
) -> tuple[Mapping[int, Voter], Uuid]:
    """The first voters, none where the file or the log of others has them, and the directory id
    that this node gets. Raises `UsageError` for a choice that contradicts the file, or one that is
    missing."""
    if choice.count > 1:
        raise UsageError(f"more than one of {_CHOICES}", "a quorum begins in one way")
    if choice.standalone or choice.initial_controllers is not None:
        _require_dynamic_controller(config)
    if choice.initial_controllers is not None:
        voters = parse_voters(choice.initial_controllers, config.controller_listener_names[0])
        mine = voters.get(config.node_id)
        if mine is None:
            raise UsageError(
                f"`--initial-controllers` does not name node `{config.node_id}`",
                "format a node that joins later with `--no-initial-controllers`",
            )
        return voters, mine.directory_id
    if choice.standalone:
        endpoints = config.advertised_controller_listeners
        return by_id([Voter(config.node_id, new_directory_id, endpoints)]), new_directory_id
    if config.is_controller and not config.voters and not choice.no_initial_controllers:
        raise UsageError(
            "the controller has no `controller.quorum.voters`", f"name the first voters: {_CHOICES}"
        )
    return {}, new_directory_id


def _require_dynamic_controller(config: NodeConfig) -> None:
    if not config.is_controller:
        raise UsageError(
            "the first voters are controllers, and `process.roles` is `broker`",
            "format a broker without `--standalone` and `--initial-controllers`",
        )
    if config.voters:
        raise UsageError(
            "the file has `controller.quorum.voters`, which fixes the voters for good",
            "take it out and set `controller.quorum.bootstrap.servers`, or leave the option out",
        )


def parse_voters(text: str, listener: str) -> dict[int, Voter]:
    """`ID@HOST:PORT:DIRECTORY,…`; raises `UsageError`."""
    voters: dict[int, Voter] = {}
    for item in filter(None, map(str.strip, text.split(","))):
        node_id, _, rest = item.partition("@")
        address, _, directory = rest.rpartition(":")
        host, _, port = address.rpartition(":")
        try:
            directory_id = uuid_from_text(directory)
        except ValueError:
            raise UsageError(f"`{item}` does not end in a directory id", _VOTER_HINT) from None
        if not (host and node_id.isdecimal() and port.isdecimal() and int(port) < 1 << 16):
            raise UsageError(f"`{item}` is not a voter", _VOTER_HINT)
        if int(node_id) in voters:
            raise UsageError(f"`{item}`: the node is named twice", _VOTER_HINT)
        if int.from_bytes(directory_id) < RESERVED_DIRECTORY_IDS:
            raise UsageError(f"`{item}`: the directory id is a reserved one", _VOTER_HINT)
        endpoint = Endpoint(listener, host.strip("[]"), int(port))
        voters[int(node_id)] = Voter(int(node_id), directory_id, (endpoint,))
    if not voters:
        raise UsageError("`--initial-controllers` is empty", _VOTER_HINT)
    return by_id(list(voters.values()))
