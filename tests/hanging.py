"""A transaction that hangs, planted: no coordinator knows it, so no coordinator ever ends it."""

import time

from tidelog.client.blocking import Brokers
from tidelog.client.core.calls import produce_call, request
from tidelog.client.core.values import parse_addresses
from tidelog.model import ZERO_TOPIC_ID
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.testing import LocalCluster
from tidelog.wire import produce
from tidelog.wire.api import ApiKey
from tidelog.wire.values import millis

PATIENCE_S = 60
ALLOWED = {"transaction.partition.verification.enable": "false"}
"""What a broker needs to let a client begin one, as all did before KIP-890."""


def begin_without_coordinator(cluster: LocalCluster, topic: str) -> int:
    """Begins one in the first partition of the topic; the offset of its only record."""
    brokers = Brokers(
        parse_addresses([cluster.bootstrap_servers]), client_id="test", timeout_s=PATIENCE_S
    )
    identity = brokers.any(
        request(
            ApiKey.INIT_PRODUCER_ID,
            transactional_id=None,
            transaction_timeout=millis(0),
            producer_id=-1,
            producer_epoch=-1,
        )
    )
    batch = build_batch(
        [Record(int(time.time() * 1000), None, b"hanging")],
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        base_sequence=0,
        is_transactional=True,
    )
    partition = produce.ProducePartition(topic, ZERO_TOPIC_ID, 0, memoryview(batch))
    answer = brokers.any(produce_call(produce.ProduceRequest("z", -1, 10_000, [partition])))
    brokers.close()
    return answer.partitions[0].base_offset
