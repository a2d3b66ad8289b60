"""A reader of committed data, and what must be true of the transactions that it sees.

It reads the transactional topic with `read_committed` as clients do: it leaves out what the answer
lists as aborted. Checked at once:

- ReadsCommittedOnly: no value of a transaction that was aborted, or that no commit was asked for.
- ReadsBelowLastStableOffset: nothing at or above the end that the answer names.
- ExactlyOnce: no value twice.

and in the end, when all is read:

- AtomicTransactions: of each transaction all values, or none; of a committed one all.
- OffsetsWithTheirTransaction: the group of a transactor is where the last transaction left it that
  was seen and had an offset.
- NoHangingTransaction: everything *can* be read; the last stable offset reaches the end of every
  partition. Otherwise the run does not come to rest.
"""

from collections.abc import Sequence
from typing import Final

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.kraft.committed import contiguous
from tidelog.model import NO_OFFSET, ZERO_TOPIC_ID
from tidelog.records.batch import decode_body, iter_headers
from tidelog.records.control import read_end_txn_marker
from tidelog.sim.report.violation import Violation
from tidelog.sim.workloads.cluster_view import TRANSACTIONAL_TOPIC, ClusterView
from tidelog.sim.workloads.transactor import PARTITIONS, Fate, Transactor
from tidelog.wire import fetch as wire_fetch
from tidelog.wire.fetch import READ_COMMITTED, FetchedPartition, FetchPartition, FetchRequest

FETCH_VERSION: Final = 12
PAUSE_MS: Final = 100
MAX_BYTES: Final = 4096


class TransactionReader:
    """One client that reads all transactions."""

    def __init__(self, view: ClusterView, prng: Prng, transactors: Sequence[Transactor]) -> None:
        self._view = view
        self._prng = prng
        self._transactors = {each.name: each for each in transactors}
        # The next offset to read, by partition.
        self._positions = dict.fromkeys(range(PARTITIONS), 0)
        # What the last answer said: last stable offset and high watermark.
        self._ends: dict[int, tuple[int, int]] = {}
        self._seen: set[str] = set()
        # The transactors have come to their end.
        self._has_all = False

    def start(self) -> None:
        """Reads on and on."""
        for number in self._positions:
            self._fetch(number)

    @property
    def unread(self) -> list[str]:
        """The partitions that are not read to their end, with what stands in the way. What was
        asked before the last transactor came to its end does not count."""
        if not all(each.is_settled for each in self._transactors.values()):
            return ["transactions are under way"]
        if not self._has_all:
            self._has_all = True
            self._ends.clear()
        has_any = any(each.transactions for each in self._transactors.values())
        return [
            f"{TRANSACTIONAL_TOPIC}-{number} is read to {position}, ends are {ends}"
            for number, position in self._positions.items()
            if has_any and (ends := self._ends.get(number)) != (position, position)
        ]

    def _fetch(self, number: int) -> None:
        leader = self._view.leader_of(TRANSACTIONAL_TOPIC, number)
        if leader is None:
            self._again(number)
            return
        session = self._view.session(leader)
        offset, has_all = self._positions[number], self._has_all
        epoch = self._view.epoch_of(TRANSACTIONAL_TOPIC, number)
        want = FetchPartition(
            TRANSACTIONAL_TOPIC, ZERO_TOPIC_ID, number, epoch, offset, -1, -1, MAX_BYTES
        )
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
        data, position = contiguous(part.records), self._positions[number]
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
                    self._see(record.value.decode())
            position = max(position, header.last_offset + 1)
        self._positions[number] = position

    def _see(self, value: str) -> None:
        name, number, _ = value.split(":")
        transaction = self._transactors[name].transactions[int(number)]
        if transaction.fate is Fate.ABORTED or value not in transaction.values:
            text = f"{value} of a transaction that is {transaction.fate.value}"
            raise Violation("ReadsCommittedOnly", text)
        if value in self._seen:
            raise Violation("ExactlyOnce", f"{value} twice")
        self._seen.add(value)
        transaction.seen.add(value)

    def judge(self) -> None:
        """At the end, when all is read."""
        for transactor in self._transactors.values():
            offset = NO_OFFSET
            for number, transaction in transactor.transactions.items():
                all_of_it = set(transaction.values)
                is_whole = transaction.seen == all_of_it
                must = transaction.fate is Fate.COMMITTED
                if not is_whole and (transaction.seen or must):
                    text = f"{transactor.name}:{number} is {transaction.fate.value}, of "
                    text += f"{sorted(all_of_it)} were seen {sorted(transaction.seen)}"
                    raise Violation("AtomicTransactions", text)
                if transaction.seen and transaction.has_offsets:
                    offset = number
            if offset != transactor.final_offset:
                text = f"{transactor.name} has {transactor.final_offset}, {offset} was committed"
                raise Violation("OffsetsWithTheirTransaction", text)
