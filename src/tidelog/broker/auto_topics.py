"""Topics that exist because a client asked about them (`auto.create.topics.enable`).

Metadata asks the controller to create what a client wants and the image does not have. A creation
is asked for once while it is under way; when it is over, well or not, the client asks again and
sees the outcome in the image.
"""

from dataclasses import dataclass

from tidelog.broker.control_link import ControlLink
from tidelog.controller.topic_messages import CreateTopics, NewTopic
from tidelog.env.instant import Instant
from tidelog.model import INTERNAL_TOPICS


@dataclass(frozen=True, slots=True)
class AutoCreate:
    """Token of a creation."""

    names: tuple[str, ...]


class AutoTopics:
    """The automatic creations of one broker."""

    def __init__(self, control: ControlLink, *, enabled: bool) -> None:
        self._control = control
        # `auto.create.topics.enable`.
        self._enabled = enabled
        # Topics whose creation is under way.
        self.creating: set[str] = set()

    def create(self, names: list[str], now: Instant) -> None:
        """Asks the controller for topics that a client wants and that do not exist."""
        if not self._enabled:
            return
        wanted = tuple(sorted(set(names) - self.creating - INTERNAL_TOPICS))
        if wanted:
            self.creating.update(wanted)
            message = CreateTopics(tuple(NewTopic(name) for name in wanted))
            self._control.call(message, AutoCreate(wanted), now)

    def on_created(self, token: AutoCreate) -> None:
        """The creation is over."""
        self.creating.difference_update(token.names)
