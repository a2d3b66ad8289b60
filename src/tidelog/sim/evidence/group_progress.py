"""What a group of the classic protocol must have to show for itself, seen by all of its members.

Members say what they were answered; each answer is checked on the spot.

- GenerationMonotonic: no member gets a generation older than one that a member had got before it
  asked.
- SingleOwner: in one generation no two members get a partition.
- OnlyTheGeneration: a commit that was sent in a generation is refused when a member had got a later
  one before that.
- CommittedNeverRegresses: what is committed is not older than the last acknowledged commit, or than
  one of unknown outcome in the same generation or a later one.
- DeliveredAtLeastOnce: no record below a committed offset that no member was given.

A generation counts as known once a SyncGroup was answered in it: from then on it is committed, and
the next coordinator has it, too. Before that it may be lost, and another one gets its number.

A client has one request under way, so one that got no answer may come into force behind a later one
of the same generation. Generations do not mix: the commits of one stand before those of the next.
"""

from collections.abc import Collection
from typing import NamedTuple

from tidelog.model import NO_OFFSET
from tidelog.sim.report.violation import Violation


class SentCommit(NamedTuple):
    """A commit of one partition, from when it was sent."""

    partition: int
    offset: int
    generation: int
    known_generation: int
    """The newest that any member had got before."""


class GroupProgress:
    """One group, and the partitions of the one topic that it reads."""

    def __init__(self, group: str) -> None:
        self.group = group
        # The newest generation that any member has got.
        self.generation = 0
        # Who got a partition, by (generation, partition).
        self._owners: dict[tuple[int, int], str] = {}
        # Exclusive ends of what was delivered, by partition: members begin where others have been.
        self._delivered: dict[int, int] = {}
        # The last acknowledged commit of the newest generation that has one, by partition.
        self._acknowledged: dict[int, SentCommit] = {}
        # What a coordinator said last that is committed, by partition.
        self._said: dict[int, int] = {}
        # Commits without an answer, by partition.
        self._unknown: dict[int, set[SentCommit]] = {}

    def on_assigned(
        self, owner: str, generation: int, partitions: Collection[int], known_generation: int
    ) -> None:
        """A member has got its part of a generation; before it asked, another one was known."""
        if generation < known_generation:
            text = f"{owner} is in {generation}, {self.group} was in {known_generation} before"
            raise Violation("GenerationMonotonic", text)
        self.generation = max(self.generation, generation)
        for each in sorted(partitions):
            first = self._owners.setdefault((generation, each), owner)
            if first != owner:
                text = f"{first} and {owner} both have {each} in generation {generation}"
                raise Violation("SingleOwner", text)

    def deliver(self, partition: int, position: int, end: int) -> None:
        """A member has got the records from a position on, up to an end (exclusive)."""
        before = self._delivered.get(partition, 0)
        assert position <= before, f"{partition} is read from {position}, only {before} was given"
        self._delivered[partition] = max(before, end)

    def send(self, partition: int, offset: int, generation: int) -> SentCommit:
        """A member commits: until it is answered nothing is known."""
        sent = SentCommit(partition, offset, generation, self.generation)
        self._unknown.setdefault(partition, set()).add(sent)
        return sent

    def refuse(self, sent: SentCommit) -> None:
        """It did not come into force, and will not."""
        self._unknown[sent.partition].discard(sent)

    def acknowledge(self, sent: SentCommit) -> None:
        """It is in force."""
        self.refuse(sent)
        self.must_be_present(sent)
        last = self._acknowledged.get(sent.partition)
        if last is None or last.generation <= sent.generation:
            self._acknowledged[sent.partition] = sent

    def must_be_present(self, sent: SentCommit) -> None:
        """The coordinator took a commit: its generation is not a former one."""
        if sent.generation < sent.known_generation:
            text = f"a commit of generation {sent.generation} counts, {self.group} was in "
            raise Violation("OnlyTheGeneration", f"{text}{sent.known_generation} before")

    def on_committed(self, partition: int, offset: int) -> None:
        """This is the committed offset of a partition (-1 for none), as the coordinator says that
        has its newest term, when all transactions on it are over."""
        last = self._acknowledged.get(partition)
        if last is not None:
            unknown = (
                each.offset
                for each in self._unknown.get(partition, ())
                if each.generation >= last.generation
            )
            least = min((last.offset, *unknown))
            if offset < least:
                text = f"{self.group} has {offset} of {partition}, {least} was acknowledged"
                raise Violation("CommittedNeverRegresses", text)
        given = self._delivered.get(partition, 0)
        if offset > given:
            text = f"{self.group} has {offset} of {partition}, {given} were delivered"
            raise Violation("DeliveredAtLeastOnce", text)
        self._said[partition] = offset

    def committed(self, partition: int) -> int:
        """The last offset that was acknowledged, or a later one of which a coordinator said that it
        is committed: its commit had no answer. -1 for none."""
        last, said = self._acknowledged.get(partition), self._said.get(partition, NO_OFFSET)
        return said if last is None else max(said, last.offset)
