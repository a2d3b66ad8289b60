"""A sequence while it is drawn: what its actors were given so far, as references to answers.

The generator never sees an answer. It notes which steps may have given a member its id or a
producer its epoch, and refers to them. One value in twelve is a wrong one, and in one request in
thirty one of the texts is as long as its version can say.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields
from typing import Any, Final

from tests.differential.steps import Long, Name, Ref, Step
from tidelog.env.prng import Prng
from tidelog.wire.api import ApiKey as K
from tidelog.wire.api import VersionRange, is_flexible
from tidelog.wire.codec import request_class

MEMBERS: Final = 3
PRODUCERS: Final = 2
PARTITIONS: Final = 2
_LONG: Final = (1, 30)
_NEVER_LONG: Final = ("committed_metadata", "host", "host_filter")
"""Of metadata `group_steps.offset_rows` has long ones, with care. Of hosts see `known.py`."""
_MEMORY: Final = 4
"""How many of the newest answers a reference tries."""

NIL: Final = bytes(16)
UNKNOWN_ID: Final = bytes(range(16))
WRITABLE: Final = (32_000, 32_767)
"""Lengths of texts that each version can carry, the longest among them."""
TOO_LONG: Final = (32_768, 65_536)
"""Lengths that only flexible versions can announce."""


@dataclass
class Member:
    """One that may join a group, on a connection of its own."""

    slot: int
    instance: str | None
    # The name that a client of the newer protocol chooses itself.
    own_id: str
    # Steps that may have given it an id and a generation, newest first, by group.
    joins: dict[str, list[int]] = field(default_factory=dict)
    beats: dict[str, list[int]] = field(default_factory=dict)


@dataclass
class ProducerActor:
    """One that may have a producer id."""

    slot: int
    name: str | None
    # Answers that may have given it an id and an epoch, newest first.
    inits: list[int] = field(default_factory=list)
    # The next sequence by topic and partition, if everything went well.
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)


class Draft:
    """See the module's docstring."""

    def __init__(self, prng: Prng, versions: Mapping[int, VersionRange]) -> None:
        self.prng = prng
        # What both brokers say that they serve.
        self.versions = versions
        self.steps: list[Step] = []
        self.members = [
            Member(slot, "static" if slot == MEMBERS - 1 else None, f"member-{slot}")
            for slot in range(MEMBERS)
        ]
        self.producers = [
            ProducerActor(MEMBERS + index, f"tx{index}" if index < PRODUCERS else None)
            for index in range(PRODUCERS + 1)
        ]
        self.admin_slot = MEMBERS + PRODUCERS + 1
        # The step that created each topic, for its id.
        self.created: dict[str, int] = {}

    def add(self, key: K, slot: int, version: int | None = None, /, **body: Any) -> int:
        """Adds a request, in a version that is drawn unless it is given; its number."""
        served = self.versions[key]
        if version is None or not served.min_version <= version <= served.max_version:
            version = self.version(key)
        if self.prng.chance(*_LONG):
            body = self._with_long(key, version, body)
        self.steps.append(Step(len(self.steps), slot, int(key), version, body))
        return len(self.steps) - 1

    def version(self, key: K) -> int:
        """Mostly the newest."""
        served = self.versions[key]
        if self.prng.chance(2, 5):
            return self.prng.between(served.min_version, served.max_version)
        return served.max_version

    def serves(self, key: K) -> bool:
        """Whether both do."""
        return key in self.versions

    def good_or(self, good: Any, *bad: Any) -> Any:
        """Mostly the good value."""
        return self.prng.choice(bad) if self.prng.chance(1, 12) else good

    def _with_long(self, key: K, version: int, body: Mapping[str, Any]) -> dict[str, Any]:
        """The body with a long text in the place of one of those that the version has."""
        known = {item.name for item in fields(request_class(key, version))}
        changed = deepcopy({name: value for name, value in body.items() if name in known})
        lengths = (*WRITABLE, *TOO_LONG) if is_flexible(key, version) else WRITABLE
        if places := list(_texts(changed)):
            holder, at = self.prng.choice(places)
            holder[at] = Long(self.prng.choice(lengths))
        return changed

    def ref(self, numbers: Sequence[int], *path: str | int, otherwise: Any, plus: int = 0) -> Ref:
        """What the newest of these answers gave."""
        return Ref(tuple((each, path) for each in numbers[:_MEMORY]), otherwise, plus)

    def topic(self) -> Any:
        """A topic's name; the first is mostly there."""
        return self.good_or(Name("t0"), Name("t1"), Name("none"), "", "bad/name", "x" * 250)

    def topic_id(self, name: Any) -> Any:
        """The id that goes with a name."""
        if isinstance(name, Name) and name.text in self.created:
            step = self.created[name.text]
            return self.good_or(
                self.ref([step], "topics", 0, "topic_id", otherwise=NIL), UNKNOWN_ID, NIL
            )
        return UNKNOWN_ID

    def partition(self) -> int:
        """Mostly one that is there."""
        return int(self.good_or(self.prng.below(PARTITIONS), 7, -1, 2**31 - 1))

    def partitions(self, row: Callable[[int], Any]) -> list[Any]:
        """One or two partitions, as rows; none twice, which Kafka answers once."""
        wanted = [self.partition() for _ in range(self.prng.between(1, 2))]
        return [row(index) for index in dict.fromkeys(wanted)]


def _texts(holder: dict[str, Any] | list[Any]) -> Iterator[tuple[Any, Any]]:
    """Where texts are: what holds them, and at which place."""
    items = holder.items() if isinstance(holder, dict) else enumerate(holder)
    for at, value in items:
        if at in _NEVER_LONG:
            continue
        if isinstance(value, dict | list):
            yield from _texts(value)
        elif isinstance(value, str | Name) or (
            isinstance(value, Ref) and isinstance(value.otherwise, str)
        ):
            yield holder, at
