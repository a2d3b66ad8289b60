"""Replicas with random faults, and what an audit must report of them, by a check of single batches.

The check reads one batch after the other and follows the table of findings in `jobs/audit.py`. It
has no runs, buckets or sums.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests.unit.pipeline.log_directories import batch, write_segment
from tidelog.env.prng import Prng
from tidelog.records.batch import BatchHeader, read_header, verify_crc

BROKERS = (1, 2, 3)
Expected = tuple[str, list[int], int, int]
"""Kind, brokers, first and last offset."""


@dataclass(slots=True)
class PlantedReplica:
    """One broker's copy of a partition."""

    segments: list[list[bytes]]
    log_start: int
    high_watermark: int
    cleaned_to: int

    def write(self, log_dir: Path, name: str) -> None:
        """A file for each segment, named as if nothing were wrong with it."""
        number = 0
        for content in self.segments:
            if content:
                number = max(number, read_header(content[0]).base_offset)
            write_segment(log_dir / name, content, base_offset=number)
            number += 1

    def judged(self) -> list[tuple[BatchHeader, bytes]]:
        """The batches that lie whole between log start and high watermark, in order."""
        found = [(read_header(data), data) for part in self.segments for data in part]
        return [
            (header, data)
            for header, data in found
            if self.log_start <= header.last_offset < self.high_watermark
        ]


def planted(prng: Prng) -> dict[int, PlantedReplica]:
    """The replicas of one partition by broker. It may begin just before a bucket ends."""
    begin = prng.choice([0, 65_490, 131_002])
    epochs = sorted(prng.below(4) for _ in range(12))
    content = [batch(begin + 10 * i, epoch=epoch) for i, epoch in enumerate(epochs)]
    end = begin + 10 * len(content)
    compacted = prng.chance(1, 4)
    replicas = {}
    for broker in BROKERS:
        own = list(content)
        cleaned_to = begin + 10 * prng.below(6) if compacted else 0
        if compacted:
            keep = (cleaned_to - begin) // 10
            own = [one for i, one in enumerate(own) if i >= keep or prng.chance(1, 2)]
        for _ in range(prng.choice([0, 0, 1, 2])):
            _spoil(prng, own)
        replicas[broker] = PlantedReplica(
            list(_rolled(prng, own)),
            begin + prng.choice([0, 0, 10, 25]),
            end - prng.choice([0, 0, 10, 20]),
            cleaned_to,
        )
    return replicas


def _rolled(prng: Prng, content: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Segments of random lengths; damaged lengths would hide what is behind, so none are."""
    edges = sorted({0, len(content), prng.below(len(content)), prng.below(len(content))})
    for first, end in pairwise(edges):
        yield list(content[first:end])


def _spoil(prng: Prng, content: list[bytes]) -> None:
    """One fault somewhere."""
    if len(content) < 2:
        return
    place = prng.below(len(content) - 1)
    base = read_header(content[place]).base_offset
    kind = prng.choice(["drop", "repeat", "swap", "epoch", "record", "bit", "cut", "early"])
    if kind == "drop":
        del content[place]
    elif kind == "repeat":
        content.insert(place + 1, content[place])
    elif kind == "swap":
        content[place : place + 2] = reversed(content[place : place + 2])
    elif kind == "epoch":
        content[place] = batch(base, epoch=prng.below(4))
    elif kind == "record":
        content[place] = batch(base, value=b"another value", epoch=1)
    elif kind == "bit":
        data = bytearray(content[place])
        # In the stored CRC or behind the header.
        data[prng.choice([17, 20, prng.between(61, len(data) - 1)])] ^= 1 << prng.below(8)
        content[place] = bytes(data)
    elif kind == "cut":
        del content[place + 1 :]
    else:
        content[place] = batch(max(base - 5, 0), epoch=2)


def expected(replicas: dict[int, PlantedReplica]) -> list[Expected]:
    """What an audit must find."""
    found: list[Expected] = []
    for broker, replica in replicas.items():
        found += _replica_findings(broker, replica)
    held: dict[int, list[tuple[int, BatchHeader]]] = {}
    for broker, replica in replicas.items():
        for header, data in replica.judged():
            if verify_crc(data) and header.base_offset >= replica.cleaned_to:
                held.setdefault(header.base_offset, []).append((broker, header))
    for base_offset, copies in held.items():
        if len({header for _, header in copies}) > 1:
            last_offset = max(header.last_offset for _, header in copies)
            brokers = sorted({broker for broker, _ in copies})
            found.append(("DIVERGENT", brokers, base_offset, last_offset))
    return sorted(found)


def _replica_findings(broker: int, replica: PlantedReplica) -> Iterator[Expected]:
    judged = replica.judged()
    for header, data in judged:
        if not verify_crc(data):
            yield "BAD_CRC", [broker], header.base_offset, header.last_offset
    for (before, _), (header, _) in pairwise(judged):
        own = (header.base_offset, header.last_offset)
        follows = before.last_offset + 1
        if header.base_offset > max(follows, replica.cleaned_to):
            yield "GAP", [broker], follows, header.base_offset - 1
        if header.base_offset < follows:
            yield "OVERLAP", [broker], *own
        if header.leader_epoch < before.leader_epoch:
            yield "EPOCH_REGRESSION", [broker], *own
    lasts = [read_header(data).last_offset for part in replica.segments for data in part]
    end = max(lasts) + 1 if lasts else replica.log_start
    if end < replica.high_watermark:
        yield "MISSING_BELOW_HW", [broker], end, replica.high_watermark - 1
