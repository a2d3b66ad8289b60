"""Which topics an ingest reads: those that are named, or those that match a pattern, also later.

A run without an end looks for new topics that match about every ten seconds. One that cannot be
prepared, because it has no record yet from which a schema could be inferred, or because its records
do not fit the table, waits: it is tried again each time, and the reason is shown once.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tidelog.errors import UsageError
from tidelog.pipeline.cluster import Client
from tidelog.pipeline.errors import ClusterUnavailable
from tidelog.pipeline.jobs.ingest_plan import IngestPlan, Prepared, prepare, prepare_all
from tidelog.pipeline.topics.option_names import Option
from tidelog.pipeline.topics.options import parse_options

MAX_TOPICS: Final = 200
"""Each is a query of its own in the driver."""

PlanOf = Callable[[str], IngestPlan]
Shown = Callable[[str, Prepared | UsageError], None]
"""Is given a topic, and how it was prepared or why it could not be."""


class Topics:
    """The topics of one run."""

    def __init__(
        self,
        connection: Mapping[str, str],
        names: Sequence[str] | None,
        pattern: str | None,
        plan_of: PlanOf,
        shown: Shown,
    ) -> None:
        # The options of the source that say how the cluster is reached.
        self._connection = dict(connection)
        # What is read: one of the two is given.
        self._names = names
        self._pattern = pattern
        # Called when a topic is prepared, or cannot be.
        self._plan_of = plan_of
        self._shown = shown
        # Those that are read, by topic.
        self.prepared: dict[str, Prepared] = {}
        # Why others wait, as it was shown.
        self._waiting: dict[str, str] = {}

    @property
    def may_grow(self) -> bool:
        """Whether topics may join later."""
        return self._pattern is not None

    def first(self) -> list[Prepared]:
        """Those that are there. Raises what `prepare_all` raises, and `UsageError` where nothing
        matches."""
        names = self._names if self._names is not None else self._matching()
        if not names:
            raise UsageError(
                f"no topic matches `--topic-pattern {self._pattern}`",
                "the pattern must match whole names; `tidelog topics list` shows them",
            )
        _check_number(names)
        found = prepare_all([self._plan_of(name) for name in names])
        for one in found:
            self._take(one)
        return found

    def joining(self) -> list[Prepared]:
        """Those that match and are not read yet. Never raises: the others are read meanwhile."""
        if self._pattern is None:
            return []
        try:
            names = [name for name in self._matching() if name not in self.prepared]
        except ClusterUnavailable:
            return []
        return [one for name in names for one in self._prepared(name)]

    def _prepared(self, name: str) -> list[Prepared]:
        try:
            _check_number([*self.prepared, name])
            found = prepare(self._plan_of(name))
        except ClusterUnavailable:
            return []
        except UsageError as error:
            if self._waiting.get(name) != error.message:
                self._waiting[name] = error.message
                self._shown(name, error)
            return []
        self._take(found)
        return [found]

    def _take(self, one: Prepared) -> None:
        self.prepared[one.plan.topic] = one
        self._shown(one.plan.topic, one)

    def _matching(self) -> list[str]:
        assert self._pattern is not None
        asked = {**self._connection, Option.SUBSCRIBE_PATTERN: self._pattern}
        options = parse_options(asked, streaming=True)
        with Client.of(options.rules) as client:
            return sorted({tp.topic for tp in options.subscription.find(client)})


def _check_number(names: Sequence[str]) -> None:
    if len(names) > MAX_TOPICS:
        raise UsageError(
            f"{len(names)} topics are more than one run takes ({MAX_TOPICS})",
            "give several runs a part of the names each",
        )
