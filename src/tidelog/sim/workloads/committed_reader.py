"""A reader of committed data of one topic, as clients read with `read_committed`.

It leaves out what the answers list as aborted, and hands every record to its own kind. Checked on
the way: ReadsBelowLastStableOffset, nothing at or above the end that the answer names.

`unread` says whether it has come to the end of every partition, since the last writer came to its:
a last stable offset that does not get there is a transaction that hangs (NoHangingTransaction).
"""

from abc import ABC, abstractmethod
from typing import Final

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.kraft.committed import contiguous
from tidelog.model import ZERO_TOPIC_ID
from tidelog.records.batch import decode_body, iter_headers
from tidelog.records.control import read_end_txn_marker
from tidelog.sim.report.violation import Violation
from tidelog.sim.workloads.cluster_view import ClusterView
from tidelog.wire import fetch as wire_fetch
from tidelog.wire.fetch import READ_COMMITTED, FetchedPartition, FetchPartition, FetchRequest

FETCH_VERSION: Final = 12
PAUSE_MS: Final = 100
MAX_BYTES: Final = 4096


class CommittedReader(ABC):
    """One client that reads a topic from its beginning."""

    def __init__(self, view: ClusterView, prng: Prng, topic: str, partitions: int) -> None:
        self._view = view
        self._prng = prng
        self._topic = topic
        # The next offset to read, by partition.
        self.positions = dict.fromkeys(range(partitions), 0)
        # What the last answer said: last stable offset and high watermark.
        self._ends: dict[int, tuple[int, int]] = {}
        # The writers have come to their end.
        self._has_all = False

    @property
    @abstractmethod
    def _writes(self) -> str | None:
        """What is still to be written; `None` for nothing."""

    @abstractmethod
    def _see(self, number: int, offset: int, value: str) -> None:
        """The next record of a partition."""

    def start(self) -> None:
        """Reads on and on."""
        for number in self.positions:
            self._fetch(number)

    @property
    def unread(self) -> list[str]:
        """The partitions that are not read to their end, with what stands in the way. What was
        asked before the last writer came to its end does not count."""
        writes = self._writes
        if writes is not None:
            return [writes]
        if not self._has_all:
            self._has_all = True
            self._ends.clear()
        return [
            f"{self._topic}-{number} is read to {position}, ends are {ends}"
            for number, position in self.positions.items()
            if (ends := self._ends.get(number)) != (position, position)
        ]

    def _fetch(self, number: int) -> None:
        leader = self._view.leader_of(self._topic, number)
        if leader is None:
            self._again(number)
            return
        session = self._view.session(leader)
        offset, has_all = self.positions[number], self._has_all
        epoch = self._view.epoch_of(self._topic, number)
        want = FetchPartition(self._topic, ZERO_TOPIC_ID, number, epoch, offset, -1, -1, MAX_BYTES)
        bounds = (300, 1, MAX_BYTES, READ_COMMITTED)
        wanted = FetchRequest(-1, -1, *bounds, 0, -1, [want], [], "")
        frame = wire_fetch.pack_request(
            FETCH_VERSION, session.correlation_id, self._view.name, wanted
        )

        def done(answer: bytes | None) -> None:
            if answer is None:
                self._again(number)
                return
            _, response = wire_fetch.parse_response(FETCH_VERSION, answer)
            part = response.partitions[0]
            if part.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
                raise Violation("NoSpuriousReset", f"{number} at {offset} on node {leader}")
            if part.error_code is not ErrorCode.NONE:
                self._again(number)
                return
            self._take(number, part)
            if has_all or not self._has_all:
                self._ends[number] = (part.last_stable_offset, part.high_watermark)
            self._view.world.at(1, lambda: self._fetch(number))

        session.request(frame, done)

    def _again(self, number: int) -> None:
        self._view.refresh(lambda: None)
        pause = self._prng.between(PAUSE_MS // 2, PAUSE_MS * 2)
        self._view.world.at(pause, lambda: self._fetch(number))

    def _take(self, number: int, part: FetchedPartition) -> None:
        data, position = contiguous(part.records), self.positions[number]
        aborted = sorted(part.aborted or (), key=lambda each: each.first_offset)
        dropped: set[int] = set()
        for place, header in iter_headers(data):
            if place + header.size_bytes > len(data):
                break
            if header.last_offset >= part.last_stable_offset:
                text = f"{number}: {header.last_offset}, stable is {part.last_stable_offset}"
                raise Violation("ReadsBelowLastStableOffset", text)
            while aborted and aborted[0].first_offset <= header.last_offset:
                dropped.add(aborted.pop(0).producer_id)
            if header.is_control:
                marker = read_end_txn_marker(data, place)
                if marker is not None and not marker.is_commit:
                    dropped.discard(header.producer_id)
            elif header.producer_id not in dropped and header.base_offset >= position:
                for record in decode_body(data, place, header):
                    assert record.value is not None, "a record without value"
                    self._see(number, record.offset, record.value.decode())
            position = max(position, header.last_offset + 1)
        self.positions[number] = position
