"""Which APIs and versions a node serves, from its declarations."""

from collections.abc import Mapping

from tidelog.broker.api.catalogue import APIS
from tidelog.broker.api.declaration import Listener, VersionRange
from tidelog.wire.api import ApiKey


def served(listener: Listener) -> Mapping[ApiKey, VersionRange]:
    """The versions that a listener answers, by key."""
    return {api.key: api.versions for api in APIS if listener in api.listeners}


BROKER_APIS = served(Listener.BROKER)
CONTROLLER_APIS = served(Listener.CONTROLLER)
