"""What one fetcher asks for, and which of it has to be read.

A follower of five thousand partitions asks for all of them with each fetch, and few have changed.
So the leader keeps two sets, as epoll does: the *interest*, which is everything that is wanted, and
the part of it that is *due*, which a fetch reads. Everything else waits in the register of its
replica (`Partition.readers`). When something about a replica may have changed, what stands in its
register is due again. So a fetch costs what changed since the one before, and not what there is.

A partition is due from the moment it is wanted, or wanted differently. It is settled when a
reading has shown that another one would find the same until the replica changes
(`Reading._settle`). Whatever cannot be decided by changes of the replica stays due: errors, records
that did not fit, throttled replicas, followers that could join the ISR but for a change under way.
While a follower's broker is fenced none of its replicas can; all are due when that has changed.

The interest of a fetch session lives as long as the session (KIP-227); that of any other fetch as
long as the fetch. A fetch that waits and one that arrives are read by the same rule.

**Progress.** An unchanged partition of a follower counts as fetched again, at the same offset, by
each fetch of the session. Nothing is written for it: while it is settled the leader takes the time
of the session's newest fetch (`remote_replica.LastFetch`).

**Order.** Partitions are read in the order of their places. One that gave records goes to the end,
so that none starves when an answer cannot hold everything.

Invariants: `DueOrWatched`: a wanted partition is due, or stands in the register of the replica that
this node hosts. `SettledHasNoNews`: reading a settled partition would find nothing (checked in
`fetch_path`).

Source: KIP-227; epoll(7).
"""

from collections.abc import Iterable
from itertools import count

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.model import TopicId
from tidelog.replication.messages import ReplyTo
from tidelog.replication.remote_replica import LastFetch, RemoteReplica
from tidelog.wire.fetch import FetchedPartition, FetchPartition, FetchRequest, ForgottenPartition

PartitionKey = tuple[str | TopicId, int]
"""The topic as the requests name it (by id, or by name), and the partition."""

Named = FetchPartition | FetchedPartition | ForgottenPartition
"""What names a partition, in requests and answers."""


class Wanted:
    """One partition of an interest."""

    __slots__ = ("place", "register", "remote", "sent_high_watermark", "sent_log_start", "want")

    def __init__(self, want: FetchPartition, place: int) -> None:
        # The newest entry of a request; it gets the topic's name when it is read.
        self.want = want
        # Those with smaller places are read before it.
        self.place = place
        # The register of its replica while it stands there.
        self.register: Readers | None = None
        # While it is settled, what the leader knows of the follower.
        self.remote: RemoteReplica | None = None
        # The offsets in the last answer of the session; -1 makes the next one list the partition.
        self.sent_high_watermark = -1
        self.sent_log_start = -1

    def is_news(self, answer: FetchedPartition) -> bool:
        """Whether an answer says what the last one that was sent did not, so that the next answer
        of the session must list the partition."""
        return (
            answer.error_code is not ErrorCode.NONE
            or answer.records_bytes > 0
            or answer.high_watermark != self.sent_high_watermark
            or answer.high_watermark > self.want.high_watermark
            or answer.log_start_offset != self.sent_log_start
            or answer.diverging_epoch is not None
            or answer.preferred_read_replica >= 0
        )

    def on_sent(self, answer: FetchedPartition) -> None:
        """The next answer of the session has this."""
        failed = answer.error_code is not ErrorCode.NONE
        self.sent_high_watermark = -1 if failed else answer.high_watermark
        self.sent_log_start = answer.log_start_offset


class Interest:
    """The partitions that one fetcher asks for."""

    __slots__ = ("_places", "_terms", "by_id", "due", "last_fetch", "parked", "standing", "wanted")

    def __init__(self, *, by_id: bool, standing: bool) -> None:
        # Whether its requests name topics by id; this does not change.
        self.by_id = by_id
        # Everything that is asked for.
        self.wanted: dict[PartitionKey, Wanted] = {}
        # What has to be read.
        self.due: dict[Wanted, None] = {}
        # Whether it outlives the fetch: that of a session does.
        self.standing = standing
        # The fetch that waits, if one does.
        self.parked: DelayedFetch | None = None
        # When the newest fetch came in.
        self.last_fetch = LastFetch()
        # What requests say beside their partitions, as far as it decides what a reading finds.
        self._terms: tuple[object, ...] = ()
        # Gives out the places.
        self._places = count()

    def _key(self, named: Named) -> PartitionKey:
        return (named.topic_id if self.by_id else named.topic, named.partition)

    def find(self, named: Named) -> Wanted | None:
        """The partition, if it is wanted."""
        return self.wanted.get(self._key(named))

    def put(self, want: FetchPartition) -> None:
        """Wants a partition, or wants it differently."""
        key = self._key(want)
        wanted = self.wanted.get(key)
        if wanted is None:
            wanted = self.wanted[key] = Wanted(want, next(self._places))
        self.make_due(wanted)
        if wanted.want.current_leader_epoch != want.current_leader_epoch:
            # The follower may have ignored the last answer, because it was of another term.
            wanted.sent_high_watermark = wanted.sent_log_start = -1
        wanted.want = want

    def drop(self, named: Named) -> None:
        """Does not want a partition any longer."""
        wanted = self.wanted.pop(self._key(named), None)
        if wanted is not None:
            self.make_due(wanted)
            self.leave(wanted)
            del self.due[wanted]

    def make_due(self, wanted: Wanted) -> None:
        """The next fetch reads it."""
        self.due[wanted] = None
        if wanted.remote is not None:
            wanted.remote.end_level(self.last_fetch)
            wanted.remote = None

    def make_all_due(self) -> None:
        """The next fetch reads everything."""
        for wanted in self.wanted.values():
            self.make_due(wanted)

    def settle(self, wanted: Wanted, remote: RemoteReplica | None) -> None:
        """It need not be read before its replica changes. A follower's stays level with the
        leader."""
        del self.due[wanted]
        wanted.remote = remote
        if remote is not None:
            remote.stay_level(self.last_fetch)

    def move_to_end(self, wanted: Wanted) -> None:
        """It gave records: the others are read before it."""
        wanted.place = next(self._places)

    def in_order(self, some: Iterable[Wanted]) -> list[Wanted]:
        """As they are read."""
        return sorted(some, key=_place)

    # Fetches ------------------------------------------------------------------------------------

    def begin_fetch(self, terms: tuple[object, ...], now: Instant) -> None:
        """A fetch has come in."""
        if terms != self._terms:
            self._terms = terms
            self.make_all_due()
        self.last_fetch.at = now

    def end(self) -> None:
        """The session is over. A fetch that waits still does."""
        self.standing = False
        self.maybe_forget()

    def maybe_forget(self) -> None:
        """Leaves all registers if no fetch needs them."""
        if not self.standing and self.parked is None:
            for wanted in self.wanted.values():
                self.make_due(wanted)
                self.leave(wanted)

    # Registers ----------------------------------------------------------------------------------

    def watch(self, wanted: Wanted, readers: "Readers") -> None:
        """Stands in the register of a replica from now on."""
        if wanted.register is not readers:
            self.leave(wanted)
            readers[self] = wanted
            wanted.register = readers

    def leave(self, wanted: Wanted) -> None:
        """Stands in no register any more."""
        if wanted.register is not None:
            wanted.register.pop(self, None)
            wanted.register = None

    def check(self) -> None:
        """Asserts `DueOrWatched`."""
        for key, wanted in self.wanted.items():
            watched = wanted.register is not None and wanted.register.get(self) is wanted
            assert wanted in self.due or watched, f"DueOrWatched: {key} is neither"
        assert len(self.due) <= len(self.wanted), f"DueOrWatched: {self.due} of {self.wanted}"


def _place(wanted: Wanted) -> int:
    return wanted.place


Readers = dict[Interest, Wanted]
"""Those who have to learn of changes of one replica."""


class DelayedFetch:
    """A Fetch; one that found less than its `min_bytes` waits."""

    __slots__ = (
        "answers",
        "deadline",
        "done",
        "followers_may_serve",
        "in_heap",
        "interest",
        "listener",
        "reply_to",
        "request",
    )

    def __init__(
        self,
        reply_to: ReplyTo,
        request: FetchRequest,
        interest: Interest,
        *,
        now: Instant,
        followers_may_serve: bool,
        listener: str = "",
    ) -> None:
        # Whose answer it is.
        self.reply_to = reply_to
        # Its limits; what it asks for is the interest.
        self.request = request
        self.interest = interest
        # Whether a consumer may be served by a follower.
        self.followers_may_serve = followers_may_serve
        # The listener that a consumer came in by.
        self.listener = listener
        # When it is answered at the latest, with whatever there is.
        self.deadline = Instant(now + request.max_wait_ms)
        # What was found of all that has been read since it arrived; of what is due it is out of
        # date.
        self.answers: dict[Wanted, FetchedPartition] = {}
        # It has been answered; nothing may answer it again.
        self.done = False
        # `Deadlines` watches over it.
        self.in_heap = False

    def complete(self) -> None:
        """Marks it as answered."""
        assert not self.done, f"OneReply: {self.reply_to} is answered already"
        self.done = True
        if self.interest.parked is self:
            self.interest.parked = None
        self.interest.maybe_forget()


def interest_of(partitions: Iterable[FetchPartition], *, by_id: bool, standing: bool) -> Interest:
    """All the partitions of a request."""
    interest = Interest(by_id=by_id, standing=standing)
    for want in partitions:
        interest.put(want)
    return interest
