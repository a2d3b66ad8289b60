"""Goal: a broker that will not come back is forgotten; a wrong id is told from the right ones."""

from typing import Any

import pytest

from tests.unit.cli.command import tidelog
from tests.unit.testing.entities import cluster, response_type
from tests.unit.testing.fake_node import scripted_node
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make
from tidelog.wire.values import error, millis


def answer(question: Any) -> Any:
    """Only broker 4 is known."""
    known = question.broker_id == 4
    return make(
        response_type(ApiKey.UNREGISTER_BROKER),
        throttle_time=millis(0),
        error_code=error(ErrorCode.NONE if known else ErrorCode.BROKER_ID_NOT_REGISTERED),
        error_message=None if known else "Broker ID 5 is not currently registered",
    )


def test_a_broker_is_forgotten_and_a_wrong_id_named(capsys: pytest.CaptureFixture[str]) -> None:
    answers = {
        ApiKey.UNREGISTER_BROKER: answer,
        ApiKey.DESCRIBE_CLUSTER: lambda _: cluster((4, "h", 9092, True), (6, "h", 9093, False)),
    }
    with scripted_node(answers) as node:
        command = ["brokers", "unregister", "--bootstrap-server", node.address, "--id"]
        done = tidelog(capsys, *command, 4)
        as_json = tidelog(capsys, *command, 4, "--output", "json").json
        refused = tidelog(capsys, *command, 5)
    assert (done.code, done.out) == (0, "broker 4 is forgotten\n")
    assert as_json == {"broker": 4, "unregistered": True}
    assert refused.code == 1
    assert "Broker ID 5 is not currently registered (BROKER_ID_NOT_REGISTERED)" in refused.err
    assert "hint: these are registered: 4,6" in refused.err


def test_an_id_that_no_broker_can_have_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert tidelog(capsys, "brokers", "unregister", "--id", -1).code == 2
    assert tidelog(capsys, "brokers", "unregister", "--id", 2**31).code == 2
