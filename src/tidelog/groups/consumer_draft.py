"""A consumer group as it will be when the records of a decision are written, and these records."""

from collections.abc import Callable
from typing import NamedTuple

from tidelog.env.instant import Instant
from tidelog.groups.classic_group import ClassicGroup
from tidelog.groups.consumer_group import EMPTY, ConsumerGroup
from tidelog.groups.consumer_records import ConsumerRecord, Kind, Value
from tidelog.groups.events import RebalanceReason
from tidelog.groups.records import GroupsRecord


class Look(NamedTuple):
    """A group's last look at the metadata."""

    version: int
    regexes_at: Instant


class Draft:
    """A group as it will be when the records of this decision are written."""

    __slots__ = (
        "former",
        "gone",
        "group",
        "group_id",
        "look",
        "may_describe",
        "records",
        "successor",
    )

    def __init__(
        self, group_id: str, group: ConsumerGroup, may_describe: Callable[[str], bool] | None = None
    ) -> None:
        self.group_id = group_id
        self.group = group
        # Whether the member whose heartbeat it is may describe a topic; `None` when it is none, and
        # regular expressions stay as they are.
        self.may_describe = may_describe
        self.records: list[GroupsRecord] = []
        # Members that are none any longer.
        self.gone: set[str] = set()
        # The last look at the metadata; `None` if there was none.
        self.look: Look | None = None
        # The classic group that became this one with this decision.
        self.former: ClassicGroup | None = None
        # The classic group that this one becomes, and why it rebalances, if it does.
        self.successor: tuple[ClassicGroup, RebalanceReason | None] | None = None

    def write(self, *changes: tuple[Kind, str, Value | None]) -> None:
        """These records too."""
        records = [
            ConsumerRecord(kind, self.group_id, name, value) for kind, name, value in changes
        ]
        self.records += records
        self.group = self.group.after(records) or EMPTY
        for kind, name, value in changes:
            if kind is Kind.SUBSCRIPTION and value is None:
                self.gone.add(name)

    def end(self) -> None:
        """Nothing of the group stays."""
        self.records += self.group.tombstones(self.group_id)
        self.gone.update(self.group.subscriptions)
        self.group = EMPTY
