"""What goes into the core and what comes out: inputs, effects, and the queue between.

A driver (`runtime/` or `sim/`) feeds inputs to `Node.receive(input, now)` and carries out the
effects in the order of `take_effects()`. Effects on one connection keep their order. Effects on
the disk (`Flush`, `Replace`) keep it, and are answered in it, within each of two lanes
(`is_of_metadata`): what the quorum waits for goes before what has queued up for partitions. An
election of many partitions asks for a file of each, and votes must not wait for them all.

A node may have several disks. Effects name files by their paths on the first one, which has the
metadata log; those for another disk are wrapped in an `OnDisk`. Each disk keeps its own order.

Connection ids: the driver numbers accepted connections with positive integers, the core numbers
the connections it asks for with negative ones. An id is never used again.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from enum import Enum

from tidelog.env.disk import Buffer, File, FileSlice
from tidelog.env.frozen import frozen
from tidelog.model import METADATA_PARTITION, Secret

# Inputs ------------------------------------------------------------------------------------


class CloseReason(Enum):
    """Why a connection is gone."""

    PEER = "closed by peer"
    REFUSED = "connection refused"
    TIMEOUT = "timed out"
    ERROR = "connection error"


@frozen
class Opened:
    """A peer connected to one of our listeners."""

    connection: int
    listener: str
    peer_host: str
    certificate: bytes | None = None
    """The peer's certificate in DER, if TLS checked one."""


@frozen
class Connected:
    """A connection that the core asked for is established."""

    connection: int


@frozen
class Closed:
    """A connection is gone, or one that was asked for could not be made."""

    connection: int
    reason: CloseReason


@frozen
class Stalled:
    """The peer of a connection does not take what was sent to it, or takes it again."""

    connection: int
    stalled: bool


# `Received` and `Send` are made for every read and write, and to freeze them would take three times
# as long as to make them. No reader changes them all the same.


@dataclass(slots=True)
class Received:
    """Bytes arrived. `data` is only valid during the call: keep a copy of what you keep."""

    connection: int
    data: Buffer


@frozen
class Flushed:
    """A `Flush` or `Replace` with this subject is durable."""

    subject: Hashable


@frozen
class FlushFailed:
    """A `Flush` or `Replace` failed; the disk must be taken to have lost the data."""

    subject: Hashable
    error: str
    disk: int = 0
    """The number of the disk."""


@frozen
class WallClock:
    """Wall time in ms = monotonic `now` + `offset_ms`, from here on."""

    offset_ms: int


@frozen
class KeysFetched:
    """An issuer of tokens has other keys than before."""

    url: str
    document: bytes
    """A JWKS that can be read."""


@frozen
class TokenFetched:
    """There is a newer token with which this node logs in at a listener of others."""

    listener: str
    token: Secret


@frozen
class StoresChecked:
    """A `CheckStores` with this subject was carried out."""

    subject: Hashable
    refusal: str
    """Why the stores cannot be used; empty: they can."""


@frozen
class Computed:
    """A `Compute` with this subject is done."""

    subject: Hashable
    result: object
    # How long it took.
    spent_ns: int = 0


@frozen
class StopRequested:
    """The operator asks for a clean stop (SIGTERM): controlled shutdown, then `Exit`."""


@frozen
class Spent:
    """How long the steps took that clients pay for (`Steps.connection_id`)."""

    times_ns: Mapping[int, int]
    """By connection."""


Input = (
    Opened
    | Connected
    | Closed
    | Stalled
    | Received
    | Flushed
    | FlushFailed
    | WallClock
    | KeysFetched
    | TokenFetched
    | StoresChecked
    | Computed
    | StopRequested
    | Spent
)

# Effects -----------------------------------------------------------------------------------

Chunk = Buffer | FileSlice


@dataclass(slots=True)
class Send:
    """Send these chunks, in order, without copying more than needed."""

    connection: int
    chunks: list[Chunk]


@frozen
class Connect:
    """Open a connection; answered by `Connected` or `Closed`."""

    connection: int
    host: str
    port: int
    listener: str
    """The listener at the other end, whose security settings this node's side obeys."""


@frozen
class Close:
    """Close a connection after what was sent has left. No `Closed` input follows."""

    connection: int


@frozen
class HoldReading:
    """Stop delivering `Received` for this connection (back-pressure), or deliver it again."""

    connection: int
    held: bool


@frozen
class Flush:
    """Make everything appended to `file` so far durable; answered by `Flushed(subject)`."""

    file: File
    subject: Hashable


@frozen
class Replace:
    """Write a whole file atomically and durably; answered by `Flushed(subject)` unless the
    subject is `None`, when nothing waits for it."""

    path: str
    data: bytes
    subject: Hashable | None = None


@frozen
class OnDisk:
    """A `Flush` or `Replace` for another disk than the first, by the number of the disk."""

    disk: int
    work: Flush | Replace


@frozen
class RefreshKeys:
    """Fetch the keys at this URL before it is time to; `KeysFetched` follows if they are others."""

    url: str


@frozen
class CheckStores:
    """Try key and trust stores of listeners; answered by `StoresChecked(subject)`."""

    settings: Mapping[str, Secret]
    """By Kafka's names, with the listeners' prefixes."""
    subject: Hashable


@frozen
class UseStores:
    """Use these stores for new connections, if they can be used, and those of the node's file where
    there are none."""

    settings: Mapping[str, Secret]


Rest = Callable[[], None]
"""What a function beside the loop calls now and then, so that the loop is not kept waiting."""


def no_rest() -> None:
    """For a caller in whose way nothing is."""


@frozen
class Compute:
    """Call a function that takes too long for a turn, beside the loop; answered by
    `Computed(subject)` with what it returns. It changes nothing, and knows nothing that changes.
    Where it is Python that takes long, it rests now and then."""

    function: Callable[[Rest], object]
    subject: Hashable


@frozen
class Exit:
    """The node is done. Code 0 after a clean stop; anything else comes with a message."""

    code: int
    message: str = ""


Effect = (
    Send
    | Connect
    | Close
    | HoldReading
    | Flush
    | Replace
    | OnDisk
    | RefreshKeys
    | CheckStores
    | UseStores
    | Compute
    | Exit
)

_METADATA_FILES = f"{METADATA_PARTITION}/"


def is_of_metadata(work: Flush | Replace) -> bool:
    """Whether the lane of the metadata log's own files takes it: log, `quorum-state`, snapshots."""
    path = work.path if isinstance(work, Replace) else work.file.path
    return path.startswith(_METADATA_FILES)


class EffectQueue:
    """The ordered effects of one node, shared by its components and drained by the driver."""

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        # In the order in which they must be carried out.
        self._pending: list[Effect] = []

    def emit(self, effect: Effect) -> None:
        """Adds one effect."""
        self._pending.append(effect)

    def take(self) -> list[Effect]:
        """All effects since the last call, in order."""
        pending, self._pending = self._pending, []
        return pending

    def __len__(self) -> int:
        return len(self._pending)


class EffectsOfDisk(EffectQueue):
    """What one of several disks is to do, in the queue of its node."""

    __slots__ = ("_disk", "_queue")

    def __init__(self, queue: EffectQueue, disk: int) -> None:
        super().__init__()
        self._queue = queue
        # The number of the disk.
        self._disk = disk

    def emit(self, effect: Effect) -> None:
        """Adds one effect on this disk."""
        assert isinstance(effect, Flush | Replace), f"{effect} cannot be done by a disk"
        self._queue.emit(OnDisk(self._disk, effect))
