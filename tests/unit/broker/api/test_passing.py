"""What an administrator changes is an event."""

from tests.unit.broker.secured_node import READ, add, entry
from tidelog.broker.events import AdministrativeChange


def test_a_change_is_an_event_with_what_is_changed(secured):
    add(secured, entry(READ))
    change = [e for e in secured.trace.events if isinstance(e, AdministrativeChange)][-1]
    assert (change.principal, change.operation) == ("User:ANONYMOUS", "CreateAcls")
    assert change.resource == "ALLOW READ TOPIC:LITERAL:orders to User:ada from *"
    assert change.rule == "SuperUser"
    assert [
        each.operation
        for each in [e for e in secured.trace.events if isinstance(e, AdministrativeChange)]
    ][:2] == ["CreateTopics"] * 2
