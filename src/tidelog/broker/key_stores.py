"""Key and trust stores that are set while the node runs (KIP-226).

The values are configurations of one broker, in the metadata as all others. Only that broker can
judge them: the files are on its machine. So a request that sets them goes to the broker itself. It
has the driver try the new stores, and then forwards the request to the controller, or refuses it.
What is committed is given to the driver again, which takes it over for new connections. A request
that sets the same place again makes the node read its files anew.

The driver tries a store again before it takes it over. The files may have changed in between, and a
request at a controller's listener is not tried by any broker, as in Kafka. What cannot be used
leaves the old stores in force, with a line in the log.

Who may not alter configurations learns nothing about files: their requests are forwarded as they
are, and the controller refuses them (*AuthorizedFirst*).

Left out: stores of the metadata before the node has followed it. Until then the file's are used.

Source: KIP-226, KAFKA-14136; Kafka's `DynamicBrokerConfig`, `ConfigAdminManager`, `SslFactory`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidelog.broker.api.declaration import ControllerApi, ForwardedApi
from tidelog.broker.authorization import Authorization
from tidelog.broker.connections import RequestContext
from tidelog.config.tls_properties import store_property
from tidelog.controller.messages import (
    ConfigOperation,
    ConfigResourceChange,
    IncrementalAlterConfigs,
    Refused,
)
from tidelog.env.effects import CheckStores, EffectQueue, UseStores
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.metadata.image import BROKER_RESOURCE, MetadataImage
from tidelog.model import Secret
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity

_ALTER: Final = on(Operation.ALTER_CONFIGS, ResourceType.CLUSTER)
_KEYS: Final = (ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ALTER_CONFIGS)


@dataclass(frozen=True, slots=True, eq=False)
class HeldAlteration:
    """A request that waits until its stores are tried."""

    context: RequestContext
    api: ControllerApi[Any, Any, Any]
    frame: bytes
    request: Entity

    def refuse(self, node: Any, reason: str) -> None:
        """Nothing of it is carried out."""
        refused = Refused(ErrorCode.INVALID_REQUEST, f"Invalid dynamic configuration: {reason}")
        version = self.context.header.api_version
        self.context.unchecked = False
        self.context.answer(self.api.answer(node, version, self.request, refused))


class KeyStores:
    """The stores of one node's listeners, as the metadata has them."""

    def __init__(self, node_id: int, effects: EffectQueue, authorization: Authorization) -> None:
        self._name = str(node_id)
        self._effects = effects
        self._authorization = authorization
        # This broker's dynamic configuration, as it was last looked at.
        self._own: Mapping[str, str] = {}
        # Whether the driver uses any store of it.
        self._in_use = False

    def on_image(self, image: MetadataImage) -> None:
        """Has the driver use what is committed, and read files anew where it was written again."""
        own = image.broker_configs(int(self._name))
        if own is self._own:
            return
        self._own, settings = own, _stores_of(own)
        if settings or self._in_use:
            self._in_use = bool(settings)
            self._effects.emit(UseStores(settings))

    def takes(
        self,
        node: Any,
        context: RequestContext,
        api: ForwardedApi[Any],
        frame: memoryview,
        request: Entity,
    ) -> bool:
        """Whether this request is not to be forwarded: it waits until its stores are tried, or is
        refused at once."""
        if api.key not in _KEYS or not isinstance(api, ControllerApi):
            return False
        try:
            message = api.message_of(request)
        except ProtocolError:
            return False
        assert isinstance(message, IncrementalAlterConfigs), f"{message!r}"
        access = self._authorization.of(context.connection)
        changes = list(filter(_names_store, message.resources))
        if not changes or not access.is_known or not access.meets(_ALTER, None, audits=False):
            return False
        held = HeldAlteration(context, api, bytes(frame), request)
        others = [each.resource_name for each in changes if each.resource_name != self._name]
        if others:
            held.refuse(node, f"this is broker `{self._name}`, and not `{others[0]}`")
            return True
        settings: Mapping[str, str] = {} if message.replaces else self._own
        for each in changes:
            settings = _altered(settings, each)
        self._effects.emit(CheckStores(_stores_of(settings), held))
        return True


def _names_store(resource: ConfigResourceChange) -> bool:
    """Whether a broker's stores would change. Every broker's cannot, as the controller says."""
    return (
        resource.resource_type == BROKER_RESOURCE
        and resource.resource_name != ""
        and any(store_property(change.name) for change in resource.changes)
    )


def _altered(settings: Mapping[str, str], resource: ConfigResourceChange) -> dict[str, str]:
    """The configuration after these changes."""
    values: dict[str, str | None] = {**settings}
    for change in resource.changes:
        is_set = change.operation == ConfigOperation.SET
        values[change.name] = change.value if is_set else None
    return {name: value for name, value in values.items() if value is not None}


def _stores_of(settings: Mapping[str, str]) -> dict[str, Secret]:
    return {name: Secret(value) for name, value in settings.items() if store_property(name)}
