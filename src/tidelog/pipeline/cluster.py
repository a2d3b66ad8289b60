"""What jobs ask a cluster: leaders, offsets, policies, and connections to leaders for `reader.py`.

Nothing is written, and only `group_progress.py` asks a group's coordinator. Leaders change: so
whatever a broker answers or fails to answer, a call tries again with fresh metadata when that may
help, and gives up when nothing went forward for `retry_s`, with what it met last.
Source: KIP-207 (OFFSET_NOT_AVAILABLE), KIP-320 (leader epochs), KIP-516 (topic ids).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Self, TypeVar

from tidelog.client.admin import describe_topic_configs
from tidelog.client.blocking import Brokers, Connection, now_ms
from tidelog.client.core.errors import RETRIABLE_READ, Retry, TopicError, TryAgain, Unreachable
from tidelog.client.core.partitions import (
    Metadata,
    list_offsets,
    metadata_request,
    read_metadata,
    read_offsets,
)
from tidelog.client.core.values import EARLIEST, LATEST, Address
from tidelog.client.security_options import PLAINTEXT, ClientSecurity
from tidelog.errors import ErrorCode, UsageError
from tidelog.model import TopicPartition
from tidelog.pipeline.errors import ClusterUnavailable
from tidelog.pipeline.values import ReadRules

T = TypeVar("T")

CLIENT_ID: Final = "tidelog-pipeline"
_BACKOFF_S: Final = 0.1
_FIRST_CONTACT_S: Final = 5.0
"""How long a cluster that never answered is tried: more likely a wrong address than a fault."""
_UNKNOWN_TOPIC_S: Final = 1.0
"""How long an unknown topic is asked for: a new one is not known to all brokers at once."""

_UNREACHABLE: Final = (
    "check the addresses in `kafka.bootstrap.servers` (`--bootstrap-server`), that the brokers "
    "run, and that this machine reaches the addresses that they advertise"
)


def not_allowed(topic: str) -> UsageError:
    """The user of a query may not read a topic."""
    return UsageError(
        f"the cluster does not let this user read topic `{topic}`",
        f"`tidelog acls add --allow-principal User:NAME --operation read --topic {topic}`, or log "
        "in as another user",
    )


class Client:
    """Reads from one cluster. Not thread-safe; make one per task."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        *,
        retry_s: float = 60.0,
        timeout_s: float = 30.0,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        # The brokers that are asked first, and again when no other is known.
        self._bootstrap = tuple(bootstrap)
        # How long a call goes on without any progress.
        self._retry_s = retry_s
        # The last metadata of the cluster; replaced as a whole.
        self.known = Metadata({}, {})
        # The connections; one answer may take `timeout_s`.
        self.brokers = Brokers(
            bootstrap,
            client_id=CLIENT_ID,
            timeout_s=timeout_s,
            attempt_s=timeout_s,
            security=security,
        )

    @classmethod
    def of(cls, rules: ReadRules) -> Self:
        """The client of a query."""
        return cls(rules.bootstrap, security=rules.security)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.brokers.close()

    def metadata(self, topics: Sequence[str] | None) -> Metadata:
        """The leaders of the partitions of these topics; `None` for all topics. Raises `UsageError`
        for a topic that does not exist, `ClusterUnavailable`."""
        return self.patiently("metadata", lambda: self.refresh(topics))

    def refresh(self, topics: Sequence[str] | None) -> Metadata:
        """Asks once. Raises `TryAgain`, `Unreachable`; `UsageError` for an illegal name."""
        try:
            found = read_metadata(self.brokers.first(metadata_request(topics)))
        except TopicError as error:
            if error.code is ErrorCode.INVALID_TOPIC_EXCEPTION:
                raise UsageError(
                    f"`{error.topic}` is not a topic name", "check `subscribe`"
                ) from None
            raise
        self.known = found
        self.brokers.prefer(found.brokers.values())
        return found

    def compacted_topics(self, topics: Sequence[str]) -> frozenset[str]:
        """Those of the topics whose `cleanup.policy` contains `compact`."""
        call = describe_topic_configs(topics, ["cleanup.policy"])
        answer = self.patiently("topic configs", lambda: self.brokers.first(call))
        return frozenset(
            result.resource_name
            for result in answer.results
            for config in result.configs or ()
            if config.name == "cleanup.policy" and "compact" in (config.value or "")
        )

    def connection_to(self, node_id: int) -> Connection:
        """An open connection to a broker of the last metadata. Raises `TryAgain`, `Unreachable`."""
        return self.brokers.connection(self.known.address_of(node_id))

    def list_offsets(
        self, partitions: Sequence[TopicPartition], timestamp: int, *, read_committed: bool = False
    ) -> dict[TopicPartition, int]:
        """As `offsets_for_times`, with the same timestamp for all partitions."""
        timestamps = dict.fromkeys(partitions, timestamp)
        return self.offsets_for_times(timestamps, read_committed=read_committed)

    def earliest_and_latest(
        self, partitions: Sequence[TopicPartition], *, read_committed: bool
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """What each partition has now: its first offset, and its end, exclusive. Raises as
        `offsets_for_times` does."""
        earliest = self.list_offsets(partitions, EARLIEST)
        return earliest, self.list_offsets(partitions, LATEST, read_committed=read_committed)

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, int]:
        """For each partition the offset of a timestamp (ms since 1970), of `EARLIEST` or of
        `LATEST`, from its leader; -1 where no record is that late. Waits while a new leader does
        not know its high watermark yet. Raises `UsageError` for a missing topic,
        `ClusterUnavailable`."""
        found: dict[TopicPartition, int] = {}
        topics = sorted({tp.topic for tp in timestamps})

        def ask_the_rest() -> dict[TopicPartition, int]:
            missing = {tp: each for tp, each in timestamps.items() if tp not in found}
            if not missing.keys() <= self.known.leaders.keys():
                self.refresh(topics)
            by_leader: dict[int, dict[TopicPartition, tuple[int, int]]] = {}
            for tp, timestamp in missing.items():
                leader = self.known.leader_of(tp)
                by_leader.setdefault(leader.node_id, {})[tp] = timestamp, leader.epoch
            refused = []
            for node_id, led in by_leader.items():
                answer = self.connection_to(node_id).call(
                    list_offsets(led, read_committed=read_committed)
                )
                for tp, (code, offset) in read_offsets(answer).items():
                    if code is ErrorCode.NONE:
                        found[tp] = offset
                    elif code in RETRIABLE_READ:
                        refused.append(f"{tp}: {code.name}")
                    else:
                        raise ClusterUnavailable(f"offsets of `{tp}`: {code.name}")
            if refused:
                raise TryAgain(", ".join(refused))
            return found

        return self.patiently(f"offsets of {', '.join(topics)}", ask_the_rest)

    def patiently(self, what: str, attempt: Callable[[], T]) -> T:
        """Repeats `attempt` while it fails in ways that pass. Raises `ClusterUnavailable` with the
        last failure once `retry_s` are over, and `UsageError` for a topic that stays unknown."""
        retry = Retry(now_ms(), self._retry_s)
        first_contact = Retry(now_ms(), min(_FIRST_CONTACT_S, self._retry_s))
        unknown_topic = Retry(now_ms(), min(_UNKNOWN_TOPIC_S, self._retry_s))
        while True:
            try:
                return attempt()
            except (TryAgain, Unreachable, ClusterUnavailable) as error:
                # Old leaders may be the reason; the addresses stay, to ask again.
                self.known = Metadata(self.known.brokers, {})
                if not isinstance(error, TryAgain):
                    self.close()
                if (
                    isinstance(error, TopicError)
                    and error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
                ):
                    raise not_allowed(error.topic) from error
                if (
                    isinstance(error, TopicError)
                    and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    and unknown_topic.is_over(now_ms())
                ):
                    raise UsageError(
                        f"topic `{error.topic}` does not exist",
                        f"the brokers asked were {self._asked()}; check the name in `subscribe`",
                    ) from error
                if (retry if self.known.brokers else first_contact).is_over(now_ms()):
                    raise ClusterUnavailable(
                        f"no {what} from {self._asked()}: {error}\nhint: {_UNREACHABLE}"
                    ) from error
            time.sleep(_BACKOFF_S)

    def _asked(self) -> str:
        return ", ".join(f"`{address}`" for address in self._bootstrap)
