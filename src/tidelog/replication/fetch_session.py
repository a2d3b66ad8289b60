"""The follower's end of an incremental fetch session (KIP-227).

A follower of a thousand idle partitions would send a thousand entries with each fetch. In a
session the leader remembers them, and a request lists only what changed: partitions that are new
or whose fetch offset moved, and those that are no longer wanted. An unlisted partition is fetched
again as it was listed last; an unmentioned one in the answer has no news.

(session id, epoch) of a request: (0, 0) asks for a session and lists everything; (s, n > 0) is the
n-th incremental request; (s, 0) closes s and asks for a new one. When the leader grants no session
it answers id 0, and everything is listed again next time.

A request adds `limits.MAX_PARTITIONS_ADDED_PER_FETCH` partitions at most, and those that follow at
once add the rest. So a session of thousands is built step by step, and neither end spends a long
turn on it. An offset that moved is always listed: the leader would send the same records again.
Without a session everything is listed.

Invariant `SessionMirrors`: after each answered request, what the leader remembers is exactly what
was wanted when that request was built, but for what is still to be listed.

Left out: the broker's end, which lives in `broker/fetch_sessions.py`.
"""

from itertools import islice
from typing import Final

from tidelog.errors import ErrorCode
from tidelog.limits import MAX_PARTITIONS_ADDED_PER_FETCH
from tidelog.model import TopicId
from tidelog.wire.fetch import FetchPartition, ForgottenPartition

FULL: Final = 0
"""The session epoch of a request that lists everything."""

_MAX_EPOCH: Final = 2**31 - 1

SessionKey = tuple[TopicId, int]
"""(topic id, partition)."""


class FollowerSession:
    """What one leader is asked for, and how the next request lists it."""

    __slots__ = (
        "_changed",
        "_forgotten",
        "_is_refused",
        "_remembered",
        "_wanted",
        "epoch",
        "session_id",
    )

    def __init__(self) -> None:
        # 0 while there is no session.
        self.session_id = 0
        # The epoch of the next request.
        self.epoch = FULL
        # Everything that is to be fetched, as the next full request would list it.
        self._wanted: dict[SessionKey, FetchPartition] = {}
        # Keys of `_wanted` that the leader does not know in this form.
        self._changed: dict[SessionKey, None] = {}
        # What the leader remembers and must not fetch any longer.
        self._forgotten: dict[SessionKey, ForgottenPartition] = {}
        # Keys that the leader remembers.
        self._remembered: set[SessionKey] = set()
        # Whether the last answer granted no session.
        self._is_refused = False

    def __len__(self) -> int:
        return len(self._wanted)

    @property
    def has_more(self) -> bool:
        """Whether the request that was taken last did not list everything."""
        return bool(self._changed)

    def put(self, entry: FetchPartition) -> None:
        """Wants a partition, or wants it differently."""
        key = (entry.topic_id, entry.partition)
        if self._wanted.get(key) == entry:
            return
        self._wanted[key] = entry
        self._changed[key] = None
        self._forgotten.pop(key, None)

    def drop(self, topic: str, key: SessionKey) -> None:
        """Does not want a partition any longer."""
        if self._wanted.pop(key, None) is None:
            return
        self._changed.pop(key, None)
        if key in self._remembered:
            self._forgotten[key] = ForgottenPartition(topic, *key)

    def take_request(self) -> tuple[list[FetchPartition], list[ForgottenPartition]]:
        """What the next request lists; it carries `session_id` and `epoch`. Every request must
        be followed by one of the `on_*` methods before the next is taken."""
        if self.epoch == FULL:
            self._changed = dict.fromkeys(self._wanted)
        remembered = self._remembered
        added = (key for key in self._changed if key not in remembered)
        limit = None if self._is_refused else MAX_PARTITIONS_ADDED_PER_FETCH
        keys = [key for key in self._changed if key in remembered]
        keys += islice(added, limit)
        for key in keys:
            del self._changed[key]
        forgotten = list(self._forgotten.values())
        self._remembered.update(keys)
        self._remembered.difference_update(self._forgotten)
        self._forgotten.clear()
        return [self._wanted[key] for key in keys], forgotten

    def on_success(self, session_id: int) -> None:
        """The request was answered in this session; id 0 means that there is none."""
        self._is_refused = session_id == 0
        if self._is_refused:
            self._start_over(0)
            return
        self.session_id = session_id
        self.epoch = 1 if self.epoch == _MAX_EPOCH else self.epoch + 1

    def on_error(self, code: ErrorCode) -> None:
        """The whole request was refused with a code: the next one lists everything."""
        unknown = code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        self._start_over(0 if unknown else self.session_id)

    def on_failure(self) -> None:
        """No answer: the leader may or may not have taken the request."""
        self._start_over(self.session_id)

    def _start_over(self, session_id: int) -> None:
        self.session_id = session_id
        self.epoch = FULL
        self._changed.clear()
        self._forgotten.clear()
        self._remembered.clear()

    def check(self) -> None:
        """Asserts `SessionMirrors`."""
        assert self._changed.keys() <= self._wanted.keys(), f"SessionMirrors: {self._changed}"
        both = self._forgotten.keys() & self._wanted.keys()
        assert not both, f"SessionMirrors: wanted and forgotten {both}"
        if self.epoch != FULL:
            known = self._wanted.keys() - self._changed.keys()
            assert known <= self._remembered, f"SessionMirrors: {known - self._remembered}"
            lost = self._remembered - self._wanted.keys() - self._forgotten.keys()
            assert not lost, f"SessionMirrors: remembered, neither wanted nor forgotten {lost}"
