"""Notes of exactly-once: whose they are, and what a task concludes from one.

Transactions themselves are tested in `tests/interop`, against a broker that has them.
"""

import json

import pytest

from tests.unit.client.scripted_brokers import ScriptedBrokers
from tidelog.client.core.values import Address
from tidelog.errors import UsageError
from tidelog.pipeline.errors import ClusterUnavailable
from tidelog.pipeline.sink.commits import (
    COMMITS_PARTITIONS,
    Note,
    Task,
    check_repeated,
    check_transactions,
    is_noted,
)
from tidelog.pipeline.sink.options import SinkOptions
from tidelog.wire.api import ApiKey

TASK = Task("query", 5, 3)


def test_tasks_have_ids_and_keys_of_their_own_in_every_batch_the_same():
    tasks = [Task(write, 0, number) for write in ("a", "b") for number in range(20)]
    assert len({task.transactional_id for task in tasks}) == len(tasks)
    assert len({task.key for task in tasks}) == len(tasks)
    assert Task("a", 9, 1).key == Task("a", 0, 1).key
    assert Task("a", 9, 1).transactional_id == Task("a", 0, 1).transactional_id
    assert {task.notes_partition for task in tasks} == set(range(COMMITS_PARTITIONS))


def test_a_note_of_the_batch_means_done_and_one_of_an_earlier_batch_does_not():
    assert is_noted(Note(5, 10), TASK)
    assert not is_noted(Note(4, 10), TASK)


def test_a_note_of_a_later_batch_is_an_old_checkpoint():
    with pytest.raises(UsageError, match="has written batch 6, and is now asked for batch 5"):
        is_noted(Note(6, 10), TASK)


def test_a_repeated_task_has_as_many_rows():
    check_repeated(Note(5, 10), TASK, 10)
    with pytest.raises(UsageError, match="was written with 10 rows and is repeated with 9"):
        check_repeated(Note(5, 10), TASK, 9)


def test_a_note_is_readable_for_people():
    assert json.loads(Note(5, 10).encoded()) == {"batch": 5, "rows": 10}
    assert json.loads(TASK.key) == {"write": "query", "task": 3}


# Whether the brokers have transactions -------------------------------------------------------


def sink_options(*addresses: Address, **client: str) -> SinkOptions:
    return SinkOptions(tuple(addresses), "t", exactly_once=True, write_id=None, client=client)


def test_brokers_without_transactions_are_refused() -> None:
    with ScriptedBrokers() as brokers:
        options = sink_options(*brokers.addresses)
        check_transactions(options)
        del brokers.served[ApiKey.END_TXN]
        with pytest.raises(UsageError, match="has no transactions") as caught:
            check_transactions(options)
        assert "`at-least-once`" in caught.value.hint
        # Who is asked over a plain connection cannot answer there.
        check_transactions(sink_options(*brokers.addresses, **{"security.protocol": "SSL"}))


def test_another_broker_is_asked_when_one_does_not_answer() -> None:
    gone = Address("127.0.0.1", 1)
    with ScriptedBrokers() as brokers:
        check_transactions(sink_options(gone, *brokers.addresses))
    with pytest.raises(ClusterUnavailable, match="cannot be reached"):
        check_transactions(sink_options(gone))
