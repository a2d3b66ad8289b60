"""The records of new partitions on their way into one atomic batch, built in slices.

A topic comes into being in one batch: no failover shows a part of it. Placing and encoding ten
thousand partitions takes longer than a turn of the node may last, though. So that is done in
slices beforehand, and what is left for the last turn is the append. Placement rests on the brokers
that are alive and on the topics of the request; if one of them has changed at the end, everything
is built anew, a few times in slices, then in one turn.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tidelog.controller.slices import Returned, Steps, a_slice
from tidelog.controller.view import View
from tidelog.limits import MAX_PARTITIONS_PLACED_PER_TURN
from tidelog.metadata.image import PartitionImage
from tidelog.metadata.image_records import partition_record
from tidelog.metadata.record_codec import encode_record
from tidelog.metadata.records import MetadataRecord
from tidelog.model import TopicId

MAX_ATTEMPTS: Final = 3
"""How often a request is built when brokers or topics change meanwhile."""


class Built:
    """Records on their way into one batch."""

    def __init__(self, view: View, *, is_paced: bool) -> None:
        # The view of the present turn. What is built rests on the first.
        self.view = view
        self.records: list[MetadataRecord] = []
        # The first of them, as the log has them; all of them at the end.
        self.encoded: list[bytes] = []
        # Whether it is built in slices.
        self._is_paced = is_paced

    def add(
        self, topic_id: TopicId, first: int, partitions: Iterable[PartitionImage]
    ) -> Steps[int]:
        """New partitions of a topic, numbered from `first` on; how many there were."""
        number = first
        for number, partition in enumerate(partitions, start=first + 1):
            self.records.append(partition_record(topic_id, number - 1, partition))
            waiting = len(self.records) - len(self.encoded)
            if self._is_paced and waiting >= MAX_PARTITIONS_PLACED_PER_TURN:
                self.encode()
                self.view = yield a_slice([])
        return number - first

    def encode(self) -> None:
        """Encodes what is not encoded yet."""
        self.encoded += map(encode_record, self.records[len(self.encoded) :])

    def cut(self, count: int) -> None:
        """Only the first `count` records stay."""
        del self.records[count:], self.encoded[count:]


def build(
    view: View, names: Sequence[str], write: Callable[[View, Built], Steps[Returned]]
) -> Steps[tuple[Returned, Built]]:
    """What `write` returns, and the records that it wrote, which rest on the metadata of now."""
    for attempt in range(MAX_ATTEMPTS):
        built = Built(view, is_paced=attempt < MAX_ATTEMPTS - 1)
        returned = yield from write(view, built)
        built.encode()
        if _is_the_same(view, built.view, names):
            break
        view = built.view
    return returned, built


def _is_the_same(before: View, after: View, names: Sequence[str]) -> bool:
    """Whether a placement of these topics would still be the one that it was."""
    if before is after:
        return True
    old, new = before.image, after.image
    if new.brokers is not old.brokers or after.departing != before.departing:
        return False
    if collisions(before) != collisions(after):
        return False
    for name in names:
        was, now = old.topic(name), new.topic(name)
        if (was and (was.topic_id, len(was.partitions))) != (
            now and (now.topic_id, len(now.partitions))
        ):
            return False
    return True


def folded(name: str) -> str:
    """What is left of a name in metrics."""
    return name.replace(".", "_")


def collisions(view: View) -> dict[str, str]:
    """Folded names of all topics whose name can collide."""
    return {folded(name): name for name in view.image.topics_by_name if "." in name or "_" in name}
