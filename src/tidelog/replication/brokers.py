"""What the metadata knows of brokers, as far as ISR decisions and readers need it.

A broker epoch stands for one uptime of a process. A follower that restarted may have lost the
tail of its log, so progress reported under an older epoch proves nothing about the process that
runs now. Hence two rules: a fetch from another uptime than the registered one is refused, and
only the uptime that is registered *and active* may join an ISR (KIP-903).

For consumers that may read from followers (KIP-392): which broker is in which rack and can be
reached.

What the metadata does not know yet, the node adds: which brokers seem to be dead.
"""

from collections.abc import Mapping

from tidelog.metadata.image import BrokerImage, MetadataImage
from tidelog.model import NO_EPOCH


class BrokerEpochs:
    """Registered broker epochs, and which brokers may enter an ISR."""

    __slots__ = ("_images", "own_epoch", "suspected", "version")

    def __init__(self) -> None:
        # This node's own broker epoch; -1 before it is registered. Set by the node.
        self.own_epoch = NO_EPOCH
        # Every registered broker as the newest metadata has it, fenced ones included.
        self._images: Mapping[int, BrokerImage] = {}
        # Whose processes seem to be dead: they have refused all connections for the grace period.
        # Set by the node.
        self.suspected: frozenset[int] = frozenset()
        # Counts the changes of the metadata.
        self.version = 0

    def follow(self, image: MetadataImage) -> None:
        """Takes over what the image has."""
        self._images = image.brokers
        self.version += 1

    def is_stale(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether a fetch comes from another uptime than the registered one; -1 never does. A newer
        one is as good as none: either this node's metadata is behind, and the next fetch will find
        it caught up, or a client has made the number up."""
        broker = self._images.get(broker_id)
        registered = NO_EPOCH if broker is None else broker.broker_epoch
        return broker_epoch not in (NO_EPOCH, registered)

    def may_join_isr(self, broker_id: int, fetched_under: int | None) -> bool:
        """Whether a replica whose last fetch carried this broker epoch may enter an ISR.
        `None`: it has not fetched under this leadership. -1: the follower sent none."""
        broker = self._images.get(broker_id)
        if broker is None or not broker.active:
            return False
        return fetched_under in (NO_EPOCH, broker.broker_epoch)

    def is_alive(self, broker_id: int) -> bool:
        """Whether a broker is registered and unfenced (it may be about to leave)."""
        broker = self._images.get(broker_id)
        return broker is not None and not broker.fenced

    def rack_of(self, broker_id: int) -> str | None:
        """The rack of a broker, `None` when it has none or is not registered."""
        broker = self._images.get(broker_id)
        return None if broker is None else broker.rack

    def serves(self, broker_id: int, listener: str) -> bool:
        """Whether a broker is unfenced and can be reached on a listener."""
        broker = self._images.get(broker_id)
        return broker is not None and not broker.fenced and broker.endpoint(listener) is not None
