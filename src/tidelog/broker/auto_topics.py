"""Topics that exist because a client asked about them.

Metadata asks the controller to create what a client wants and the image does not have
(`auto.create.topics.enable`); FindCoordinator asks for the topic that coordinators live on. A
creation is asked for once while it is under way; when it is over, well or not, the client asks
again and sees the outcome in the image.
"""

from dataclasses import dataclass

from tidelog.broker.control_link import ControlLink
from tidelog.broker.events import InternalTopicNotCreated
from tidelog.controller.messages import Response
from tidelog.controller.topic_messages import CreateTopics, CreateTopicsResult, NewTopic
from tidelog.env.instant import Instant
from tidelog.env.trace import Trace
from tidelog.errors import ErrorCode
from tidelog.model import INTERNAL_TOPICS


@dataclass(frozen=True, slots=True)
class AutoCreate:
    """Token of a creation."""

    names: tuple[str, ...]


class AutoTopics:
    """The automatic creations of one broker."""

    def __init__(self, control: ControlLink, trace: Trace, *, enabled: bool) -> None:
        self._control = control
        self._trace = trace
        # `auto.create.topics.enable`.
        self.enabled = enabled
        # Topics whose creation is under way.
        self.creating: set[str] = set()

    def create(self, names: list[str], now: Instant) -> None:
        """Asks the controller for topics that a client wants and that do not exist."""
        if not self.enabled:
            return
        wanted = sorted(set(names) - self.creating - INTERNAL_TOPICS)
        if wanted:
            self._create(tuple(NewTopic(name) for name in wanted), now)

    def create_internal(self, topic: NewTopic, now: Instant) -> None:
        """Asks the controller for a topic that a coordinator lives on, whatever clients may do."""
        if topic.name not in self.creating:
            self._create((topic,), now)

    def _create(self, topics: tuple[NewTopic, ...], now: Instant) -> None:
        names = tuple(topic.name for topic in topics)
        self.creating.update(names)
        self._control.call(CreateTopics(topics), AutoCreate(names), now)

    def on_created(self, token: AutoCreate, response: Response | None) -> None:
        """The creation is over."""
        self.creating.difference_update(token.names)
        if isinstance(response, CreateTopicsResult):
            for topic in response.topics:
                code, is_internal = topic.error_code, topic.name in INTERNAL_TOPICS
                if is_internal and code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    reason = topic.message or code.name
                    self._trace.event(InternalTopicNotCreated(topic=topic.name, reason=reason))
