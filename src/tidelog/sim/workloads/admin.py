"""An administrator: creates and deletes topics and adds partitions while everything else goes on.

A deletion abandons its topic in the history before it is sent: from then on nothing is promised
about it. Topics are deleted by id, so that a late retry cannot hit a successor of the same name.
"""

from collections.abc import Callable, Mapping
from typing import Final

from tidelog.errors import ErrorCode
from tidelog.model import TopicId
from tidelog.sim.evidence.history import History, Key
from tidelog.sim.workloads.cluster_view import Answered, ClusterView, request
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.values import error_of, millis, uuid_of

CREATE_VERSION: Final = 7
DELETE_VERSION: Final = 6
PARTITIONS_VERSION: Final = 3
TIMEOUT_MS: Final = 5_000

Coded = Callable[[ErrorCode | None], None]
"""Gets the error code, or `None` without an answer."""


class Admin:
    """One client that changes topics."""

    def __init__(self, view: ClusterView, history: History) -> None:
        self.view = view
        self._history = history
        # Requests without an outcome.
        self.pending = 0

    def create(self, name: str, partitions: int, configs: Mapping[str, str], done: Coded) -> None:
        """Creates a topic with three replicas."""
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": min(3, len(self.view.brokers)),
            "assignments": [],
            "configs": [{"name": key, "value": value} for key, value in configs.items()],
        }
        wanted = _of_topic(ApiKey.CREATE_TOPICS, CREATE_VERSION, topic)
        self.ask(wanted, done, lambda answer: answer.topics[0])

    def delete(self, key: Key, topic_id: TopicId, done: Coded) -> None:
        """Deletes the topic of a key."""
        self._history.abandoned.add(key.topic)
        topic = {"name": None, "topic_id": uuid_of(topic_id)}
        wanted = _of_topic(ApiKey.DELETE_TOPICS, DELETE_VERSION, topic)
        self.ask(wanted, done, lambda answer: answer.responses[0])

    def add_partitions(self, name: str, count: int, done: Coded) -> None:
        """Raises the number of partitions of a topic to `count`."""
        topic = {"name": name, "count": count, "assignments": None}
        wanted = _of_topic(ApiKey.CREATE_PARTITIONS, PARTITIONS_VERSION, topic)
        self.ask(wanted, done, lambda answer: answer.results[0])

    def ask(
        self,
        wanted: Entity,
        done: Coded,
        result_of: Callable[[Entity], Entity] = lambda answer: answer,
    ) -> None:
        """Sends any request whose answer has one result to any broker."""

        def answered(response: Entity | None) -> None:
            done(None if response is None else error_of(result_of(response).error_code))

        self.send(wanted, answered)

    def send(self, wanted: Entity, answered: Answered, node_id: int | None = None) -> None:
        """Sends any request to any broker, or to a certain one."""
        self.pending += 1

        def ended(response: Entity | None) -> None:
            self.pending -= 1
            answered(response)

        self.view.ask(wanted, ended, node_id)


def _of_topic(key: ApiKey, version: int, topic: Mapping[str, object]) -> Entity:
    return request(key, version, topics=[topic], timeout=millis(TIMEOUT_MS), validate_only=False)
