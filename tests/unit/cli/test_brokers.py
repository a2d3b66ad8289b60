"""Goal: a broker that will not come back is unregistered; for a wrong id the hint has others."""

from typing import Any

import pytest

from tests.unit.cli.command import tidelog
from tests.unit.client.responses import cluster
from tests.unit.client.scripted_brokers import ScriptedBrokers
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey


def answer(request: Any) -> Any:
    """Only broker 4 is known."""
    if request.broker_id == 4:
        return {}
    message = "Broker ID 5 is not currently registered"
    return {"error_code": ErrorCode.BROKER_ID_NOT_REGISTERED, "error_message": message}


def test_a_broker_is_unregistered_and_a_wrong_id_named(capsys: pytest.CaptureFixture[str]) -> None:
    answers = {
        ApiKey.UNREGISTER_BROKER: answer,
        ApiKey.DESCRIBE_CLUSTER: lambda _: cluster((4, "h", 9092, True), (6, "h", 9093, False)),
    }
    with ScriptedBrokers(answers) as node:
        command = ["brokers", "unregister", "--bootstrap-server", node.bootstrap_servers, "--id"]
        done = tidelog(capsys, *command, 4)
        as_json = tidelog(capsys, *command, 4, "--output", "json").json
        refused = tidelog(capsys, *command, 5)
    assert (done.code, done.out) == (0, "unregistered broker 4\n")
    assert as_json == {"broker": 4, "unregistered": True}
    assert refused.code == 1
    assert "Broker ID 5 is not currently registered (BROKER_ID_NOT_REGISTERED)" in refused.err
    assert "hint: use the id of a registered broker: 4,6" in refused.err


def test_an_id_that_no_broker_can_have_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert tidelog(capsys, "brokers", "unregister", "--id", -1).code == 2
    assert tidelog(capsys, "brokers", "unregister", "--id", 2**31).code == 2
