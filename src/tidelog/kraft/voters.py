"""The voter set: which replicas vote, by the records in the log, and the sets before it.

With `kraft.version` 0 the voters stand in every node's configuration and never change. With
`kraft.version` 1 (KIP-853) they stand in the metadata log, as VOTERS control records. A replica
obeys the last one in its log *from the moment it is appended*, committed or not: a leader that
counted by the old set until the new one is committed could not know with whose votes that commit
was made. What is not committed may be truncated, so the history of sets is kept as far back as the
log may be cut, and a truncation restores the former one.

Why one change at a time is enough: two sets that differ in one voter have no disjoint majorities
(Ongaro 2014, §4.1). So a leader begins the next change only when the last one is committed, and the
first one of its epoch only when its epoch is (*OneChangeAtATime*): otherwise it could not know that
a change of an earlier leader, which it never saw, is dead.

A voter is an id *and* a directory. A node whose disk was wiped has another directory id; it is
not that voter, has no vote to give, and cannot be counted for entries that it has lost
(*VoterIsItsDisk*). Static voters have no directory, and any will do; see `docs/protocol/kraft.md`
for what that costs.

Formatting writes the first set into the snapshot at offset 0, `0-0.checkpoint`, which is never sent
to another replica. The first leader repeats it in the log; its entry here is at offset -1.

LEADER_CHANGE stays at version 0, without directories: Kafka 4.3 reads no other.

Source: KIP-853; the layout of the records is Kafka's.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from kio.schema.k_raft_version_record.v0.data import KRaftVersionRecord
from kio.schema.voters_record.v0.data import VotersRecord

from tidelog.env.disk import Disk
from tidelog.errors import CorruptBatch, MalformedFrame
from tidelog.kraft.messages import ReplicaKey, Voter
from tidelog.kraft.snapshot_format import (
    BOOTSTRAP_SNAPSHOT,
    ControlEntry,
    encode_snapshot,
    snapshot_name,
)
from tidelog.model import METADATA_PARTITION, ZERO_UUID, Endpoint
from tidelog.records.control import ControlType, kraft_version_value
from tidelog.wire.entities import make, plain
from tidelog.wire.schema import read_entity, write_entity

KRAFT_VERSION: Final = "kraft.version"
STATIC_VOTERS: Final = 0
DYNAMIC_VOTERS: Final = 1
SUPPORTED_VERSIONS: Final = (STATIC_VOTERS, DYNAMIC_VOTERS)
"""Lowest and highest `kraft.version` served."""

BOOTSTRAP_PATH: Final = f"{METADATA_PARTITION}/{snapshot_name(BOOTSTRAP_SNAPSHOT)}"
BEFORE_THE_LOG: Final = -1
"""The offset of what formatting has left behind."""


def is_voter(voters: Mapping[int, Voter], replica: ReplicaKey) -> bool:
    """Whether a replica is a member: its id, and its directory where the set knows that."""
    voter = voters.get(replica.node_id)
    return voter is not None and voter.directory_id in (ZERO_UUID, replica.directory_id)


def by_id(voters: Sequence[Voter]) -> dict[int, Voter]:
    """A voter set, in the order of ids."""
    return {voter.node_id: voter for voter in sorted(voters, key=lambda voter: voter.node_id)}


# Records ------------------------------------------------------------------------------------


def plain_endpoints(endpoints: Sequence[Endpoint]) -> list[dict[str, Any]]:
    """Listeners as the wire names their fields (`wire.entities.make`)."""
    return [{"name": end.listener, "host": end.host, "port": end.port} for end in endpoints]


def endpoints_of(rows: Sequence[Mapping[str, Any]]) -> tuple[Endpoint, ...]:
    """The inverse of `plain_endpoints`."""
    return tuple(Endpoint(row["name"], row["host"], row["port"]) for row in rows)


def plain_voter(voter: Voter | ReplicaKey) -> dict[str, Any]:
    """A voter as records and requests name its fields; they differ in the listeners' name."""
    values = {"voter_id": voter.node_id, "voter_directory_id": voter.directory_id}
    if isinstance(voter, ReplicaKey):
        return values
    ends = plain_endpoints(voter.endpoints)
    low, high = voter.kraft_versions
    levels = {"min_supported_version": low, "max_supported_version": high}
    return {**values, "endpoints": ends, "listeners": ends, "k_raft_version_feature": levels}


def voter_of(values: Mapping[str, Any]) -> Voter:
    """The inverse of `plain_voter`; who does not name its versions supports ours."""
    endpoints = endpoints_of(values.get("endpoints") or values.get("listeners") or ())
    versions = SUPPORTED_VERSIONS
    if "k_raft_version_feature" in values:
        low, high = values["k_raft_version_feature"].values()
        versions = (low, high)
    return Voter(values["voter_id"], values["voter_directory_id"], endpoints, versions)


def encode_voters(voters: Mapping[int, Voter]) -> bytes:
    """The value of a VOTERS record."""
    rows = [plain_voter(voter) for voter in voters.values()]
    out = bytearray()
    write_entity(out, make(VotersRecord, version=0, voters=rows))
    return bytes(out)


def decode_voters(value: bytes) -> dict[int, Voter]:
    """The voter set of a VOTERS record. Raises `CorruptBatch`."""
    voters = [voter_of(plain(row)) for row in _decoded(VotersRecord, value).voters]
    if not voters or len({voter.node_id for voter in voters}) != len(voters):
        raise CorruptBatch(f"no voter set: {[voter.node_id for voter in voters]}")
    return by_id(voters)


def decode_kraft_version(value: bytes) -> int:
    """The level of a KRAFT_VERSION record. Raises `CorruptBatch`."""
    return int(_decoded(KRaftVersionRecord, value).k_raft_version)


def voter_records(version: int, voters: Mapping[int, Voter]) -> tuple[ControlEntry, ...]:
    """The records that establish a version and its voter set: in a snapshot, and in the first
    batch of the log."""
    return (
        ControlEntry(ControlType.KRAFT_VERSION, kraft_version_value(version)),
        ControlEntry(ControlType.KRAFT_VOTERS, encode_voters(voters)),
    )


def write_first_voters(disk: Disk, voters: Mapping[int, Voter], wall_ms: int) -> None:
    """What formatting leaves behind of the voters: `0-0.checkpoint`."""
    entries = voter_records(DYNAMIC_VOTERS, voters)
    disk.make_dir(str(METADATA_PARTITION))
    disk.replace(BOOTSTRAP_PATH, encode_snapshot(BOOTSTRAP_SNAPSHOT, wall_ms, (), entries))


def _decoded(entity_type: Any, value: bytes) -> Any:
    try:
        entity, end = read_entity(entity_type, value, 0)
    except MalformedFrame as error:
        raise CorruptBatch(f"unreadable {entity_type.__name__}: {error.message}") from None
    if end != len(value):
        raise CorruptBatch(f"{entity_type.__name__} with {len(value) - end} bytes behind it")
    return entity


# History ------------------------------------------------------------------------------------


T = TypeVar("T")


class _At(NamedTuple, Generic[T]):
    """What a record says, and its offset."""

    offset: int
    value: T


def _below(offset: int, entries: list[_At[T]]) -> list[_At[T]]:
    return [entry for entry in entries if entry.offset < offset]


class VoterHistory:
    """All voter sets that a truncation may bring back, the newest last."""

    def __init__(self, static: Mapping[int, Voter]) -> None:
        # The configured voters, obeyed while the log has none; in the order of ids.
        self._static: Mapping[int, Voter] = by_id(list(static.values()))
        # `kraft.version` by the offset of its record, ascending.
        self._versions: list[_At[int]] = []
        # Voter sets by the offset of their record, ascending.
        self._sets: list[_At[Mapping[int, Voter]]] = []

    @property
    def version(self) -> int:
        """The `kraft.version` that is obeyed."""
        return self._versions[-1].value if self._versions else STATIC_VOTERS

    @property
    def voters(self) -> Mapping[int, Voter]:
        """The voter set that is obeyed, in the order of ids."""
        return self._sets[-1].value if self._sets else self._static

    def may_campaign(self, replica: ReplicaKey, high_watermark: int) -> bool:
        """Whether a replica may ask for votes: a voter, or one whose removal is not known to be
        committed. It may be the only one that has the set without it, and then no other replica
        could be elected by the set before (Ongaro 2014, §4.2.2). It does not vote for itself."""
        if is_voter(self.voters, replica):
            return True
        if not self._sets or self._sets[-1].offset < high_watermark:
            return False
        before = self._sets[-2].value if len(self._sets) > 1 else self._static
        return is_voter(before, replica)

    @property
    def sets(self) -> Sequence[tuple[int, Mapping[int, Voter]]]:
        """All sets that are remembered, by the offset of their record, ascending."""
        return self._sets

    @property
    def voters_offset(self) -> int | None:
        """Where the newest set stands; -1 for what formatting wrote, `None` for configured ones."""
        return self._sets[-1].offset if self._sets else None

    def on_record(self, control_type: int, value: bytes, offset: int) -> None:
        """Takes a control record of the log; most are of no concern here.

        Raises `CorruptBatch` for a value that cannot be read.
        """
        if control_type == ControlType.KRAFT_VERSION:
            version = decode_kraft_version(value)
            assert not self._versions or offset > self._versions[-1].offset, f"version at {offset}"
            self._versions.append(_At(offset, version))
        elif control_type == ControlType.KRAFT_VOTERS:
            assert not self._sets or offset > self._sets[-1].offset, f"voters at {offset}"
            self._sets.append(_At(offset, decode_voters(value)))

    def truncate_to(self, end_offset: int) -> bool:
        """The log ends here now; returns whether a former set came back."""
        before = (len(self._versions), len(self._sets))
        self._versions = _below(end_offset, self._versions)
        self._sets = _below(end_offset, self._sets)
        return before != (len(self._versions), len(self._sets))

    def restart(self, end_offset: int, records: Sequence[tuple[int, bytes]]) -> None:
        """The log begins here now, behind a snapshot with these control records; what stood in the
        log from there on is learnt anew. Raises `CorruptBatch`."""
        self._versions.clear()
        self._sets.clear()
        for control_type, value in records:
            self.on_record(control_type, value, end_offset - 1)

    def forget_before(self, offset: int) -> None:
        """Nothing below is ever truncated: of that, only the newest entries count."""
        self._versions = self._versions[max(0, len(_below(offset, self._versions)) - 1) :]
        self._sets = self._sets[max(0, len(_below(offset, self._sets)) - 1) :]

    def records_at(self, end_offset: int) -> tuple[ControlEntry, ...]:
        """The quorum's records in a snapshot at this offset; none with static voters."""
        versions, sets = _below(end_offset, self._versions), _below(end_offset, self._sets)
        if not versions or not sets:
            return ()
        return voter_records(versions[-1].value, sets[-1].value)
