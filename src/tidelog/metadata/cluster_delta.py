"""Brokers and controllers, while records are replayed on top of an image.

A part of `MetadataDelta`. Registrations are few and rarely change, so a change copies the map.

Source: KIP-631, KIP-919; Kafka's cluster delta.
"""

from collections.abc import Mapping
from dataclasses import replace

from tidelog.metadata import records
from tidelog.metadata.image import BrokerImage, ControllerImage, MetadataImage
from tidelog.model import Endpoint


class ClusterDelta:
    """The nodes of an image, changed by records."""

    def __init__(self, image: MetadataImage) -> None:
        # The image's maps until a record changes one; replaced then, never changed in place.
        self.brokers: Mapping[int, BrokerImage] = image.brokers
        self.controllers: Mapping[int, ControllerImage] = image.controllers
        # Brokers registered, changed or unregistered, in the order of the first change.
        self.changed_brokers: dict[int, None] = {}

    def on_register_broker(self, record: records.RegisterBrokerRecord, offset: int) -> None:
        """A broker process is known."""
        self._change_broker(broker_of(record, offset))

    def on_unregister_broker(self, record: records.UnregisterBrokerRecord) -> None:
        """A broker is forgotten."""
        self._registered(record.broker_id, record.broker_epoch)
        brokers = dict(self.brokers)
        del brokers[record.broker_id]
        self.brokers = brokers
        self.changed_brokers[record.broker_id] = None

    def on_broker_change(self, record: records.BrokerRegistrationChangeRecord) -> None:
        """A broker was fenced or unfenced, leaves, or has other directories."""
        broker = self._registered(record.broker_id, record.broker_epoch)
        cordoned = record.cordoned_log_dirs
        fenced = {records.FENCE: True, records.UNFENCE: False}.get(record.fenced, broker.fenced)
        leaving = broker.in_controlled_shutdown or record.in_controlled_shutdown == 1
        changed = replace(
            broker,
            fenced=fenced,
            in_controlled_shutdown=leaving,
            log_dirs=record.log_dirs or broker.log_dirs,
            cordoned_log_dirs=broker.cordoned_log_dirs if cordoned is None else cordoned,
        )
        self._change_broker(changed)

    def on_old_fencing(
        self, record: records.FenceBrokerRecord | records.UnfenceBrokerRecord
    ) -> None:
        """A broker was fenced or unfenced (the older records)."""
        fenced = isinstance(record, records.FenceBrokerRecord)
        self._change_broker(replace(self._registered(record.id, record.epoch), fenced=fenced))

    def _registered(self, broker_id: int, broker_epoch: int) -> BrokerImage:
        broker = self.brokers.get(broker_id)
        assert broker is not None, f"broker {broker_id} is not registered"
        assert broker.broker_epoch == broker_epoch, (
            f"broker {broker_id} is registered with epoch {broker.broker_epoch}, not {broker_epoch}"
        )
        return broker

    def _change_broker(self, broker: BrokerImage) -> None:
        self.brokers = {**self.brokers, broker.node_id: broker}
        self.changed_brokers[broker.node_id] = None

    def on_register_controller(self, record: records.RegisterControllerRecord) -> None:
        """A controller process is known."""
        controller = ControllerImage(
            record.controller_id,
            record.incarnation_id,
            _endpoints(record.end_points),
            _features(record.features),
        )
        self.controllers = {**self.controllers, record.controller_id: controller}

    def on_unregister_controller(self, record: records.UnregisterControllerRecord) -> None:
        """A controller is forgotten."""
        controllers = dict(self.controllers)
        controllers.pop(record.controller_id, None)
        self.controllers = controllers


def broker_of(record: records.RegisterBrokerRecord, offset: int) -> BrokerImage:
    """The broker that a registration at this offset makes."""
    return BrokerImage(
        node_id=record.broker_id,
        broker_epoch=record.broker_epoch,
        incarnation_id=record.incarnation_id,
        endpoints=_endpoints(record.end_points),
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        features=_features(record.features),
        log_dirs=record.log_dirs,
        registration_offset=offset,
        cordoned_log_dirs=record.cordoned_log_dirs or (),
    )


def _endpoints(entries: tuple[records.EndpointEntry, ...]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in entries)


def _features(entries: tuple[records.FeatureEntry, ...]) -> dict[str, tuple[int, int]]:
    return {e.name: (e.min_supported_version, e.max_supported_version) for e in entries}
