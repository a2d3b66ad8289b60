"""What access control entries cost a node that handles small requests, in CPU time.

    python -m bench.authorization --requests 3000 --rounds 5

Whole nodes on memory disks handle Metadata requests of a user for one topic: without an authorizer,
with ten entries, and with ten thousand, in turn. The user has its right by an entry for itself.
Beside that: one decision that no connection remembers, of names that differ.
"""

import argparse
import gc
import platform
import statistics
import time
from collections.abc import Sequence

from tests.unit.broker.one_node import OneNode, Wire
from tests.unit.broker.secured_node import DESCRIBE, a_node, add, as_user, entry

from tidelog.env.effects import Received
from tidelog.model import Principal
from tidelog.security.rights import Operation, ResourceType
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make

TOPIC = "orders"
BATCH = 500
NO_OPERATIONS = {"include_topic_authorized_operations": False}


def node_with(entries: int) -> OneNode:
    """A node with a topic and so many entries; without an authorizer for none."""
    node = a_node() if entries else OneNode()
    node.client().create_topic(TOPIC)
    rows = [entry(DESCRIBE, TOPIC)] if entries else []
    rows += [
        entry(DESCRIBE, f"t{n}", principal=f"User:u{n}", resource_pattern_type=3 + n % 2)
        for n in range(entries - 1)
    ]
    for first in range(0, len(rows), BATCH):
        add(node, *rows[first : first + BATCH])
    return node


def cost_us(wire: Wire, requests: int) -> float:
    """CPU time of one request."""
    values = {"topics": [{"topic_id": None, "name": TOPIC}], "allow_auto_topic_creation": False}
    request = make(codec.request_class(ApiKey.METADATA, 12), **values, **NO_OPERATIONS)
    one = Received(wire.connection_id, codec.encode_request(request, 7, "bench"))
    core, now = wire.node.node, wire.node.now
    gc.collect()
    begin = time.process_time_ns()
    for _ in range(requests):
        core.receive(one, now)
        core.wake(now)
        core.take_effects()
    return (time.process_time_ns() - begin) / requests / 1000


def decision_us(node: OneNode, decisions: int) -> float:
    """CPU time of one decision that is made anew."""
    authorizer = node.broker.authorization.authorizer
    assert authorizer is not None
    who, names = Principal("User", "ada"), [f"name-{n}" for n in range(decisions)]
    begin = time.process_time_ns()
    for name in names:
        authorizer.decide(who, "10.0.0.1", Operation.DESCRIBE, ResourceType.TOPIC, name)
    return (time.process_time_ns() - begin) / decisions / 1000


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.authorization", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    nodes = {count: node_with(count) for count in (0, 10, 10_000)}
    wires = {count: as_user(node, "ada") for count, node in nodes.items()}
    costs: dict[int, list[float]] = {count: [] for count in nodes}
    for _ in range(options.rounds):
        for count, wire in wires.items():
            costs[count].append(cost_us(wire, options.requests))
    base = min(costs[0])
    print(f"{platform.machine()}, {options.rounds} rounds of {options.requests} requests")
    for count, found in costs.items():
        line = f"{count:>6} entries: {min(found):7.1f} us a request at best, "
        line += f"{statistics.median(found):7.1f} median, {min(found) / base - 1:+.1%}"
        print(line + (f", {decision_us(nodes[count], 20_000):.2f} us a decision" if count else ""))


if __name__ == "__main__":
    main()
