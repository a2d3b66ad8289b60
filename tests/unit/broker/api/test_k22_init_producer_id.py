"""InitProducerId: fresh ids for idempotent producers, epochs for transactional ones."""

import pytest

from tests.unit.broker.api.transaction_client import one_node
from tests.unit.broker.api.wire_turns import versions
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of, millis

VERSIONS = versions(ApiKey.INIT_PRODUCER_ID)


def ask(wire, version, transactional_id=None, producer_id=-1, producer_epoch=-1):
    response = wire.call(
        ApiKey.INIT_PRODUCER_ID,
        version,
        transactional_id=transactional_id,
        transaction_timeout=millis(60_000),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
    code = error_of(response.error_code)
    return code, response.producer_id, response.producer_epoch


@pytest.mark.parametrize("version", VERSIONS)
def test_every_producer_gets_its_own_id_with_epoch_zero(wire, version):
    answers = [ask(wire, version) for _ in range(3)]
    assert {(code, epoch) for code, _, epoch in answers} == {(ErrorCode.NONE, 0)}
    ids = [producer_id for _, producer_id, _ in answers]
    assert ids == [ids[0], ids[0] + 1, ids[0] + 2]


def test_ids_go_on_behind_the_end_of_a_block(node, wire):
    _, first, _ = ask(wire, 4)
    block = node.broker.image.next_producer_id
    for _ in range(block - first - 1):
        node.broker.producer_ids.request(lambda *_: None, node.now)
    assert ask(wire, 4)[:2] == (ErrorCode.NONE, block)
    assert node.broker.image.next_producer_id > block


@pytest.mark.parametrize("version", [3, 4, 5])
def test_an_id_that_a_producer_had_before_is_replaced(wire, version):
    _, old, _ = ask(wire, version)
    code, new, epoch = ask(wire, version, producer_id=old, producer_epoch=3)
    assert (code, epoch) == (ErrorCode.NONE, 0)
    assert new != old


@pytest.mark.parametrize(("producer_id", "epoch"), [(5, -1), (-1, 5), (-1, -2), (-2, -1)])
def test_half_an_identity_is_refused(wire, producer_id, epoch):
    answer = ask(wire, 5, producer_id=producer_id, producer_epoch=epoch)
    assert answer == (ErrorCode.INVALID_REQUEST, -1, -1)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_producer_of_a_transactional_id_gets_the_next_epoch(version):
    wire = one_node().client()
    code, producer_id, epoch = ask(wire, version, transactional_id="tx")
    assert (code, epoch) == (ErrorCode.NONE, 0)
    assert ask(wire, version, transactional_id="tx") == (ErrorCode.NONE, producer_id, 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_transactional_id_has_a_name(wire, version):
    assert ask(wire, version, transactional_id="")[0] is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [3, 4, 5])
def test_an_older_producer_is_fenced(version):
    wire = one_node().client()
    _, producer_id, _ = ask(wire, version, transactional_id="tx")
    for _ in range(2):
        ask(wire, version, transactional_id="tx")
    code = ErrorCode.PRODUCER_FENCED if version >= 4 else ErrorCode.INVALID_PRODUCER_EPOCH
    old = {"producer_id": producer_id, "producer_epoch": 0}
    assert ask(wire, version, transactional_id="tx", **old)[0] is code


def test_without_a_coordinator_the_client_looks_for_it(wire):
    assert ask(wire, 4, transactional_id="tx")[0] is ErrorCode.NOT_COORDINATOR
