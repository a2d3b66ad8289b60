"""Goal: each record once and in order, though answers are lost and leaders move."""

import pytest

from tests.unit.client.scripted_brokers import ScriptedCluster, ScriptedPartition
from tidelog.client.admin import AdminError
from tidelog.client.blocking import Brokers
from tidelog.client.writing import Writer
from tidelog.errors import ErrorCode
from tidelog.model import ZERO_TOPIC_ID, TopicPartition
from tidelog.records.batch import decode_batch, read_header
from tidelog.records.record import Record
from tidelog.wire import produce
from tidelog.wire.api import ApiKey


class Log:
    """What the cluster has written, and how it answers."""

    def __init__(self):
        self.batches = []
        # What to answer in place of success, the next first; "close" writes, then hangs up.
        self.outcomes = []
        leaders = {TopicPartition("orders", n): ScriptedPartition([], leader=n + 1) for n in (0, 1)}
        self.cluster = ScriptedCluster(leaders)
        self.cluster.answers[ApiKey.INIT_PRODUCER_ID] = lambda _: {
            "producer_id": 9,
            "producer_epoch": 0,
        }
        self.cluster.answers[ApiKey.PRODUCE] = self._produce

    def _produce(self, asked):
        answers = []
        for each in asked.partitions:
            outcome = self.outcomes.pop(0) if self.outcomes else ErrorCode.NONE
            if outcome in (ErrorCode.NONE, "close"):
                self.batches.append((each.partition, bytes(each.records)))
            if outcome == "close":
                return None
            answers.append(
                produce.ProducedPartition(
                    "orders", ZERO_TOPIC_ID, each.partition, outcome, len(self.batches), -1, 0
                )
            )
        return produce.ProduceResponse(answers)


@pytest.fixture
def log():
    found = Log()
    with found.cluster:
        yield found


@pytest.fixture
def brokers(log):
    found = Brokers(log.cluster.addresses, client_id="test", timeout_s=2.0)
    yield found
    found.close()


def records(*values):
    return [Record(1, None, value.encode()) for value in values]


def test_records_go_to_the_leaders_with_sequences(log, brokers):
    writer = Writer(brokers, "orders")
    assert writer.partition_count == 2
    assert writer.write({0: records("a", "b"), 1: records("c")}) == {0: 1, 1: 2}
    writer.write({0: records("d")})
    headers = [(number, read_header(batch)) for number, batch in log.batches]
    assert [(n, h.producer_id, h.base_sequence) for n, h in headers] == [
        (0, 9, 0),
        (1, 9, 0),
        (0, 9, 2),
    ]


@pytest.mark.parametrize("outcome", [ErrorCode.NOT_LEADER_OR_FOLLOWER, "close"])
def test_a_batch_is_sent_again_as_it_was(log, brokers, outcome):
    """After a lost answer the leader knows the batch."""
    after = ErrorCode.DUPLICATE_SEQUENCE_NUMBER if outcome == "close" else ErrorCode.NONE
    log.outcomes = [outcome, after]
    offsets = Writer(brokers, "orders").write({0: records("a")})
    assert offsets == {0: -1 if outcome == "close" else 1}
    ((_, batch),) = log.batches
    assert [record.value for record in decode_batch(batch)] == [b"a"]


def test_a_refusal_that_stays(log, brokers):
    log.outcomes = [ErrorCode.MESSAGE_TOO_LARGE]
    with pytest.raises(AdminError, match="MESSAGE_TOO_LARGE"):
        Writer(brokers, "orders").write({0: records("a")})
    with pytest.raises(AdminError, match="does not exist"):
        Writer(brokers, "nothing")
