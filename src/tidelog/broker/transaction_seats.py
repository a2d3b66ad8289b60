"""The transaction coordinators of this node: one for each partition of `__transaction_state` led
here.

A request waits for the replicas at most for `request.timeout.ms`. What a coordinator wants written
to other partitions gathers in `wanted`, from where `transaction_markers.py` takes it; all else is
in `coordinator_seats.py`.
"""

from collections.abc import Collection

from tidelog.broker.coordinator_log import CoordinatorLog
from tidelog.broker.coordinator_seats import Call, CoordinatorSeats
from tidelog.config import NodeConfig
from tidelog.env.instant import Instant
from tidelog.env.trace import Trace
from tidelog.errors import ErrorCode
from tidelog.metadata.image import TRANSACTION_VERSION, MetadataImage
from tidelog.model import TRANSACTIONS_TOPIC, TopicPartition
from tidelog.replication.replicas import Replicas
from tidelog.transactions.coordinator import TransactionCoordinator
from tidelog.transactions.endings import WantedMarkers
from tidelog.transactions.messages import Marker, Request, Response
from tidelog.transactions.records import Transaction


class TransactionCall(Call[Response]):
    """A request under way to a transaction coordinator."""

    __slots__ = ()


class TransactionSeats(CoordinatorSeats[TransactionCoordinator]):
    """The transaction coordinators of one node."""

    __slots__ = ("transaction_version", "wanted")

    def __init__(self, config: NodeConfig, replicas: Replicas, trace: Trace) -> None:
        # Markers to be written that have not been taken yet.
        self.wanted: list[WantedMarkers] = []
        # The level of the feature that the cluster has finalised.
        self.transaction_version = 0

        def make(_: TopicPartition, log: CoordinatorLog) -> TransactionCoordinator:
            made = TransactionCoordinator(log, config.transactions, trace, self.wanted)
            made.transaction_version = self.transaction_version
            return made

        super().__init__(
            topic_name=TRANSACTIONS_TOPIC,
            make=make,
            write_timeout_ms=config.broker.request_timeout_ms,
            node_id=config.node_id,
            replicas=replicas,
            trace=trace,
        )

    def on_image(self, image: MetadataImage) -> None:
        """Follows the leadership of the partitions, and the level of the feature."""
        level = image.features.get(TRANSACTION_VERSION, 0)
        if level != self.transaction_version:
            self.transaction_version = level
            for seat in self._seats.values():
                seat.coordinator.transaction_version = level
        super().on_image(image)

    def ask(self, request: Request, call: TransactionCall, now: Instant) -> None:
        """Hands a request to the coordinator of its transactional id; the call is settled, now or
        later."""
        self.hand_over(request.transactional_id, request, call, now, writes=True)

    def list_transactions(self) -> list[tuple[str, Transaction]] | None:
        """All that this node coordinates; `None` while some are being loaded."""
        coordinators = self.coordinators()
        if coordinators is None:
            return None
        return [pair for each in coordinators for pair in each.entries.items()]

    def wants(self, marker: Marker) -> bool:
        """Whether a marker is still to be written."""
        found = self.find(marker.transactional_id)
        return found is not None and found[1].coordinator.wants(marker)

    def on_markers_written(
        self,
        marker: Marker,
        partitions: Collection[TopicPartition],
        now: Instant,
        *,
        refusal: ErrorCode | None = None,
    ) -> None:
        """These partitions have the marker, or with a refusal will never take it."""
        found = self.find(marker.transactional_id)
        if found is not None:
            number, seat = found
            self.touch(number, seat, now)
            seat.coordinator.on_markers_written(marker, partitions, now, refusal=refusal)
