"""Goal: a coordinator is looked for with each question, until one answers for good."""

import pytest

from tests.unit.client.scripted_brokers import ScriptedBrokers
from tidelog.client.admin import AdminError
from tidelog.client.blocking import Brokers
from tidelog.client.coordinators import TRANSACTION, Coordinators
from tidelog.client.core.calls import request
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey

DELETE = request(ApiKey.DELETE_GROUPS, groups_names=("billing",))


@pytest.fixture
def codes():
    """What FindCoordinator and then the coordinator answer, the next first."""
    return {ApiKey.FIND_COORDINATOR: [], ApiKey.DELETE_GROUPS: []}


@pytest.fixture
def brokers(codes):
    def next_code(key):
        return codes[key].pop(0) if codes[key] else ErrorCode.NONE

    with ScriptedBrokers() as found:
        place = {"key": "billing", "node_id": 1, "host": "127.0.0.1", "port": found.port}
        found.answers |= {
            ApiKey.FIND_COORDINATOR: lambda _: {
                "coordinators": [{**place, "error_code": next_code(ApiKey.FIND_COORDINATOR)}]
            },
            ApiKey.DELETE_GROUPS: lambda _: {
                "results": [{"group_id": "billing", "error_code": next_code(ApiKey.DELETE_GROUPS)}]
            },
        }
        yield found


def ask(brokers):
    connections = Brokers(brokers.addresses, client_id="test", timeout_s=2.0)
    try:
        asked = Coordinators(connections, TRANSACTION)
        return asked.ask("billing", DELETE, "delete it", lambda answer: answer.results[0])
    finally:
        connections.close()


def test_it_is_looked_for_again(brokers, codes):
    codes[ApiKey.FIND_COORDINATOR] = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    codes[ApiKey.DELETE_GROUPS] = [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ]
    assert ask(brokers).group_id == "billing"
    looked_for = [r for r in brokers.requests if hasattr(r, "coordinator_keys")]
    assert len(looked_for) == 4
    assert {each.key_type for each in looked_for} == {TRANSACTION}


def test_an_error_that_stays(brokers, codes):
    codes[ApiKey.DELETE_GROUPS] = [ErrorCode.NON_EMPTY_GROUP]
    with pytest.raises(AdminError, match="NON_EMPTY_GROUP"):
        ask(brokers)
