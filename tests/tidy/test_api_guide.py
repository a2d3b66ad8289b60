"""Goal: the guide "How to add an API" is right. Method: its worked example is run: its declaration
joins the real ones in a registry, and a router answers a request with it."""

import re
from dataclasses import fields
from typing import Any

import pytest

from tests.tidy.source import texts
from tests.unit.broker.one_node import OneNode
from tidelog.broker.api.catalogue import APIS
from tidelog.broker.api.registry import Registry
from tidelog.broker.context import Broker
from tidelog.broker.router import Router
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make
from tidelog.wire.values import error_of

KEY = ApiKey.LIST_TRANSACTIONS


def api_of_the_guide():
    """The declaration at the end of the worked example."""
    section = texts()["CONTRIBUTING.md"].split("## How to add an API")[1]
    (code,) = re.findall("```python\n(.*?)```", section.split("\n## ")[0], re.DOTALL)
    module = {"__name__": "k66_list_transactions"}
    exec(compile(code, "CONTRIBUTING.md", "exec"), module)
    return module["API"]


TRANSACTIONS = (("orders-writer", 2000, "Ongoing"),)
"""The part that step 3 of the guide adds."""


@pytest.mark.parametrize("version", [0, 1])
def test_the_worked_example_answers(version):
    parts = OneNode().broker
    kept = {each.name: getattr(parts, each.name) for each in fields(Broker) if each.init}
    others = [each for each in APIS if each.key is not KEY]
    apis: Registry[Any] = Registry((*others, api_of_the_guide()))
    broker = Broker(**kept | {"apis": apis, "transactions": TRANSACTIONS})
    broker.connections.on_opened(99, "PLAINTEXT", "peer", Instant(0))
    connection = broker.connections.get(99)
    assert connection is not None
    request = make(codec.request_class(KEY, version), state_filters=())
    frame = memoryview(codec.encode_request(request, 5, "test"))[4:]
    Router(broker, broker.trace).on_frame(connection, frame, 0)
    (context,) = connection.slots
    answer = b"".join(context.chunks)[4:]
    correlation_id, response = codec.decode_response(KEY, version, answer)
    assert correlation_id == 5
    assert error_of(response.error_code) is ErrorCode.NONE
    (state,) = response.transaction_states
    assert (state.transactional_id, state.producer_id, state.transaction_state) == (
        "orders-writer",
        2000,
        "Ongoing",
    )
