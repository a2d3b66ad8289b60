"""The configurations of many topics in one answer.

To describe one topic takes 0.4 ms: thirty properties, each with the levels that it may come from.
Tools ask for all topics of a cluster at once, and CreateTopics answers with the configuration of
each new one. But of a thousand topics most have the same overrides, so an answer describes and
encodes each set of them once.
"""

from collections.abc import Callable, Mapping, Sequence

from tidelog.broker.api.checks import Check, Each
from tidelog.metadata.image import GROUP_RESOURCE, TOPIC_RESOURCE
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire.entities import ArrayWriter
from tidelog.wire.primitives import Encoded

Row = Mapping[str, object]


class ConfigRows:
    """The `configs` of the entities of one class in one answer."""

    def __init__(self, entity_type: type) -> None:
        """`entity_type` has the array `configs`."""
        self._entity_type = entity_type
        # By what the rows depend on.
        self._encoded: dict[tuple[object, ...], Encoded] = {}

    def __len__(self) -> int:
        """How many sets of overrides were described."""
        return len(self._encoded)

    def of(
        self,
        overrides: Mapping[str, str],
        describe: Callable[[], Sequence[Row]],
        *depends_on: object,
    ) -> Encoded:
        """The rows of a topic with these overrides; `describe` makes them where they are new. What
        else they depend on is the same in the whole answer, or named."""
        key = (*sorted(overrides.items()), *depends_on)
        found = self._encoded.get(key)
        if found is None:
            rows = ArrayWriter(self._entity_type, "configs")
            for row in describe():
                rows.add(**row)
            found = self._encoded[key] = rows.array()
        return found


def config_rights(operation: Operation, answer: str) -> tuple[Check, ...]:
    """What is asked about each resource of a request: the right on a topic or a group, else on the
    cluster. `answer` is the array of the answer."""
    own = {TOPIC_RESOURCE: ResourceType.TOPIC, GROUP_RESOURCE: ResourceType.GROUP}

    def each(resource: ResourceType, kinds: tuple[int, ...], *, inside: bool = True) -> Each:
        return Each(
            rights=on(operation, resource),
            rows="resources",
            name="resource_name",
            answer=answer,
            about=lambda row: (row.resource_type in kinds) is inside,
        )

    return (
        *(each(resource, (kind,)) for kind, resource in own.items()),
        each(ResourceType.CLUSTER, tuple(own), inside=False),
    )
