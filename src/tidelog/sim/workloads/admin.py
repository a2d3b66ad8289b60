"""An administrator: creates and deletes topics and adds partitions while everything else goes on.

A deletion abandons its topic in the history before it is sent: from then on nothing is promised
about it. Topics are deleted by id, so that a late retry cannot hit a successor of the same name.
"""

from collections.abc import Callable, Mapping
from typing import Final

from tidelog.model import TopicId
from tidelog.sim.evidence.history import History, Key
from tidelog.sim.workloads.cluster_view import ClusterView
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, make, nested
from tidelog.wire.values import millis, uuid_of

CREATE_VERSION: Final = 7
DELETE_VERSION: Final = 6
PARTITIONS_VERSION: Final = 3
TIMEOUT_MS: Final = 5_000

Answered = Callable[[int | None], None]
"""Gets the error code, or `None` without an answer."""


class Admin:
    """One client that changes topics."""

    def __init__(self, view: ClusterView, history: History) -> None:
        self.view = view
        self._history = history
        # Requests without an outcome.
        self.pending = 0

    def create(
        self, name: str, partitions: int, configs: Mapping[str, str], done: Answered
    ) -> None:
        """Creates a topic with three replicas."""
        request_type = codec.request_class(ApiKey.CREATE_TOPICS, CREATE_VERSION)
        topic_type = nested(request_type, "topics")
        config_type = nested(topic_type, "configs")
        topic = make(
            topic_type,
            name=name,
            num_partitions=partitions,
            replication_factor=min(3, len(self.view.brokers)),
            assignments=(),
            configs=tuple(make(config_type, name=k, value=v) for k, v in configs.items()),
        )
        entity = make(
            request_type, topics=(topic,), timeout=millis(TIMEOUT_MS), validate_only=False
        )
        self.ask(
            ApiKey.CREATE_TOPICS,
            CREATE_VERSION,
            entity,
            lambda response: response.topics[0].error_code.value,
            done,
        )

    def delete(self, key: Key, topic_id: TopicId, done: Answered) -> None:
        """Deletes the topic of a key."""
        self._history.abandoned.add(key.topic)
        request_type = codec.request_class(ApiKey.DELETE_TOPICS, DELETE_VERSION)
        topic = make(nested(request_type, "topics"), name=None, topic_id=uuid_of(topic_id))
        entity = make(request_type, topics=(topic,), timeout=millis(TIMEOUT_MS))
        self.ask(
            ApiKey.DELETE_TOPICS,
            DELETE_VERSION,
            entity,
            lambda response: response.responses[0].error_code.value,
            done,
        )

    def add_partitions(self, name: str, count: int, done: Answered) -> None:
        """Raises the number of partitions of a topic to `count`."""
        request_type = codec.request_class(ApiKey.CREATE_PARTITIONS, PARTITIONS_VERSION)
        topic = make(nested(request_type, "topics"), name=name, count=count, assignments=None)
        entity = make(
            request_type, topics=(topic,), timeout=millis(TIMEOUT_MS), validate_only=False
        )
        self.ask(
            ApiKey.CREATE_PARTITIONS,
            PARTITIONS_VERSION,
            entity,
            lambda response: response.results[0].error_code.value,
            done,
        )

    def ask(
        self,
        api_key: ApiKey,
        version: int,
        entity: Entity,
        code_of: Callable[[Entity], int],
        done: Answered,
    ) -> None:
        """Sends any request to any broker."""
        session = self.view.any_session()
        self.pending += 1

        def on_answer(frame: bytes | None) -> None:
            self.pending -= 1
            if frame is None:
                done(None)
                return
            _, response = codec.decode_response(api_key, version, frame)
            done(code_of(response))

        frame = codec.encode_request(entity, session.correlation_id, self.view.name)
        session.request(frame, on_answer)
