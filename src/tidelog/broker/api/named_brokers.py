"""The brokers that an answer about the cluster names."""

from typing import Final, Protocol

from tidelog.broker.api.needs import HasConfig, HasImage
from tidelog.model import Endpoint

OPERATIONS_NOT_ASKED: Final = -(2**31)
"""The field of authorised operations in an answer to a client that did not ask for them."""


class Node(HasConfig, HasImage, Protocol):
    """The node that answers, and what it knows."""


def brokers_to_name(node: Node, listener: str) -> list[tuple[int, Endpoint, str | None]]:
    """(node id, endpoint, rack) of the alive brokers; if there are none, of this one."""
    image, node_id = node.image, node.config.node_id
    alive, end = image.alive_brokers(listener), image.endpoint(node_id, listener)
    if alive or end is None:
        return alive
    return [(node_id, end, image.brokers[node_id].rack)]


def any_alive_broker(node: Node) -> int:
    """Some alive broker, which clients take for the controller: this one if it is alive."""
    image = node.image
    if image.is_alive(node.config.node_id):
        return node.config.node_id
    return next((node_id for node_id in sorted(image.brokers) if image.is_alive(node_id)), -1)
