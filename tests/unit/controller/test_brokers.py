"""Registration, its refusals and its clean-up; the records of a broker's phases."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.controller.harness import (
    FEATURES,
    Stage,
    a_broker,
    a_stage,
    a_view,
    an_image,
    at_once,
    code_of,
    directory_of,
)
from tidelog.controller.brokers import fence
from tidelog.controller.events import FenceReason
from tidelog.controller.messages import (
    FeatureRange,
    RegisterBrokerResult,
    RegisterController,
    RegisterControllerResult,
    UnregisterBroker,
    UnregisterBrokerResult,
)
from tidelog.errors import ErrorCode
from tidelog.metadata.image import METADATA_VERSION, PartitionImage
from tidelog.metadata.records import (
    FENCE,
    UNFENCE,
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from tidelog.model import ZERO_UUID, Endpoint, Uuid

# Registration ------------------------------------------------------------------------------


def test_a_first_registration() -> None:
    """Goal: fenced, and its epoch is the metadata offset of the registration."""
    stage = a_stage()
    offset = stage.log.end_offset
    assert stage.register(1) == RegisterBrokerResult(offset)
    broker = stage.broker(1)
    assert (broker.broker_epoch, broker.registration_offset, broker.fenced) == (
        offset,
        offset,
        True,
    )
    assert broker.endpoints == (Endpoint("PLAINTEXT", "b1", 9092),)
    assert broker.log_dirs == (directory_of(1),)
    assert broker.features[METADATA_VERSION] == (7, 30)


def test_a_repeated_registration_keeps_epoch_and_fencing() -> None:
    """Goal: the same incarnation amends; a lost answer costs nothing."""
    stage = a_stage(1)
    epoch = stage.epochs[1]
    answer = stage.register(1, endpoints=(Endpoint("PLAINTEXT", "moved", 1),))
    assert answer == RegisterBrokerResult(epoch)
    assert not stage.broker(1).fenced
    assert stage.broker(1).endpoints[0].host == "moved"
    assert stage.broker(1).registration_offset > epoch


def test_a_repeated_registration_that_changes_nothing_writes_nothing() -> None:
    """Goal: where commits take longer than a broker waits for its answer, the log falls silent, and
    the next answer is in time."""
    stage = a_stage(1)
    before, epoch = stage.log.end_offset, stage.epochs[1]
    assert stage.register(1) == RegisterBrokerResult(epoch)
    assert stage.log.end_offset == before
    assert stage.register(1, rack="r") == RegisterBrokerResult(epoch)
    assert stage.log.end_offset == before + 1


REFUSALS: dict[str, tuple[dict[str, Any], ErrorCode]] = {
    "another cluster": ({"cluster_id": "x"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
    "no directory": ({"log_dirs": ()}, ErrorCode.INVALID_REGISTRATION),
    "a reserved directory": ({"log_dirs": (ZERO_UUID,)}, ErrorCode.INVALID_REGISTRATION),
    "a directory twice": (
        {"log_dirs": (directory_of(9), directory_of(9))},
        ErrorCode.INVALID_REGISTRATION,
    ),
    "another's directory": ({"log_dirs": (directory_of(1),)}, ErrorCode.INVALID_REGISTRATION),
    "no listener": ({"endpoints": ()}, ErrorCode.INVALID_REGISTRATION),
    "no metadata.version": ({"features": {}}, ErrorCode.INVALID_REGISTRATION),
    "an old metadata.version": (
        {"features": {**FEATURES, METADATA_VERSION: FeatureRange(7, 29)}},
        ErrorCode.UNSUPPORTED_VERSION,
    ),
    "without a finalised feature": (
        {"features": {METADATA_VERSION: FeatureRange(7, 30)}},
        ErrorCode.UNSUPPORTED_VERSION,
    ),
    "needs a feature that is off": (
        {"features": {**FEATURES, "transaction.version": FeatureRange(1, 1)}},
        ErrorCode.UNSUPPORTED_VERSION,
    ),
}


@pytest.mark.parametrize(("fields", "code"), REFUSALS.values(), ids=REFUSALS)
def test_refused_registrations(fields: dict[str, Any], code: ErrorCode) -> None:
    """Goal: each reason has its code, and nothing is written."""
    stage = a_stage(1)
    before = stage.log.end_offset
    assert code_of(stage.register(2, **fields)) is code
    assert stage.log.end_offset == before
    assert 2 not in stage.controller.image.brokers


def test_a_duplicate_waits_for_the_session() -> None:
    """Goal: a second process with the id is refused until the first one's session has ended."""
    stage = a_stage(1, 2)
    other = directory_of(77)
    answer = stage.register(1, b"b", log_dirs=(other,))
    assert code_of(answer) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    stage.pass_time(stage.now + 8000)
    stage.heartbeat(2)
    answer = stage.register(1, b"b", log_dirs=(other,))
    assert code_of(answer) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    stage.pass_time(stage.now + 3000)
    assert stage.broker(1).fenced
    assert isinstance(stage.register(1, b"b", log_dirs=(other,)), RegisterBrokerResult)


def test_a_fresh_registration_without_a_heartbeat_may_be_replaced() -> None:
    """Goal: a process that died between registration and heartbeat has no session."""
    stage = a_stage()
    stage.register(1)
    assert isinstance(stage.register(1, b"b"), RegisterBrokerResult)


def restarted(stage: Stage, broker_id: int, *, clean: bool) -> list[MetadataRecord]:
    """The broker's process is replaced at once; the records of its registration."""
    stage.controller.on_broker_suspected(broker_id, stage.now)
    previous = stage.epochs[broker_id] if clean else -1
    before = len(stage.log.records)
    stage.register(broker_id, b"b", previous_broker_epoch=previous)
    return stage.records()[before:]


@pytest.mark.parametrize("clean", [True, False])
def test_a_new_incarnation_is_cleaned_up_after(clean: bool) -> None:
    """Goal: the predecessor leaves every ISR, and after an unclean stop every ELR; its
    registration comes last, with an epoch that nothing older can have."""
    stage = a_stage(1, 2, 3)
    stage.create("orders", (1, 2), (2, 1), (3, 2))
    stage.pass_time(stage.now + 3500)
    old = stage.epochs[1]
    before = len(stage.log.records)
    previous = old if clean else -1
    answer = stage.register(1, b"b", previous_broker_epoch=previous)
    assert answer == RegisterBrokerResult(stage.log.end_offset - 1)
    records = stage.records()[before:]
    assert [type(record) for record in records] == [PartitionChangeRecord] * 2 + [
        RegisterBrokerRecord
    ]
    for number in (0, 1):
        partition = stage.partition("orders", number)
        assert (partition.isr, partition.leader) == ((2,), 2)
        assert partition.eligible_leaders == ((1,) if clean else ())
    assert stage.partition("orders", 2).partition_epoch == 0
    assert stage.broker(1).fenced


@pytest.mark.parametrize("clean", [True, False])
def test_an_elr_member_that_restarts(clean: bool) -> None:
    """Goal: the ELR is left only by those that may have lost records."""
    stage = a_stage(1, 2)
    stage.create("orders", (1, 2))
    assert stage.heartbeat(2, fence=True).is_fenced
    assert stage.partition("orders").eligible_leaders == (2,)
    stage.pass_time(stage.now + 3500)
    old = stage.epochs[2]
    stage.register(2, b"b", previous_broker_epoch=old if clean else -1)
    assert stage.partition("orders").eligible_leaders == ((2,) if clean else ())
    assert stage.partition("orders").isr == (1,)


def test_an_elr_member_that_was_unregistered_and_comes_back() -> None:
    """Goal: nothing shows that it stopped cleanly, so it may not be elected as if it had."""
    stage = a_stage(1, 2)
    stage.create("orders", (1, 2))
    old = stage.epochs[2]
    stage.ask(UnregisterBroker(2))
    assert stage.partition("orders").eligible_leaders == (2,)
    stage.register(2, b"b", previous_broker_epoch=old)
    assert stage.partition("orders").eligible_leaders == ()


def test_a_suspected_predecessor_does_not_block() -> None:
    """Goal: a broker that the node saw die is replaced at once."""
    stage = a_stage(1, 2)
    stage.create("orders", (1, 2))
    stage.pass_time(stage.now + 600)
    records = restarted(stage, 1, clean=False)
    assert [type(record) for record in records] == [PartitionChangeRecord, RegisterBrokerRecord]


def test_many_clean_up_records_are_split_and_the_registration_is_last() -> None:
    """Goal: the bound of a batch holds; the answer waits for the last one."""
    config = replace(Stage().config, max_records_per_batch=10)
    stage = a_stage(1, 2, config=config)
    for number in range(5):
        stage.create(f"t{number}", *[(1, 2)] * 5)
    stage.pass_time(stage.now + 3500)
    stage.register(1, b"b")
    assert stage.log.batch_sizes[-3:] == [10, 10, 6]
    assert isinstance(stage.records()[-1], RegisterBrokerRecord)


# Unregistration and controllers ------------------------------------------------------------


def test_unregistering_a_broker() -> None:
    """Goal: out of all ISRs, then forgotten; its next heartbeat is answered with an order to
    register."""
    stage = a_stage(1, 2)
    stage.create("orders", (1, 2))
    assert stage.ask(UnregisterBroker(1)) == UnregisterBrokerResult()
    assert 1 not in stage.controller.image.brokers
    assert (stage.partition("orders").isr, stage.partition("orders").leader) == ((2,), 2)
    assert code_of(stage.heartbeat(1)) is ErrorCode.STALE_BROKER_EPOCH
    assert code_of(stage.ask(UnregisterBroker(1))) is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_registering_a_controller() -> None:
    """Goal: noted once per process."""
    stage = a_stage()
    endpoint = Endpoint("CONTROLLER", "c", 9093)
    request = RegisterController(5, Uuid(b"x" * 16), (endpoint,), FEATURES)
    assert stage.ask(request) == RegisterControllerResult()
    controller = stage.controller.image.controllers[5]
    assert controller.endpoints == (endpoint,)
    assert controller.features[METADATA_VERSION] == (7, 30)
    before = stage.log.end_offset
    stage.ask(request)
    assert stage.log.end_offset == before
    stage.ask(request._replace(incarnation_id=Uuid(b"y" * 16)))
    assert stage.log.end_offset == before + 1


# Phases ------------------------------------------------------------------------------------


def test_fencing_comes_after_the_changes() -> None:
    """Goal: no prefix of the list leaves a fenced broker in an ISR."""
    partitions = [PartitionImage((1, 2), (1, 2), 1, 0, 0)] * 3
    image = an_image(a_broker(1), a_broker(2), orders=partitions)
    decision = at_once(fence(a_view(image), image.brokers[1], FenceReason.SHUTS_DOWN))
    *changes, last = decision.records
    assert [type(record) for record in changes] == [PartitionChangeRecord] * 3
    assert last == BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, fenced=FENCE)


def test_unfencing_comes_before_the_elections() -> None:
    """Goal: the new leader is unfenced already when the election is read."""
    stage = a_stage(1)
    stage.create("orders", (1,))
    stage.heartbeat(1, fence=True)
    assert not stage.heartbeat(1).is_fenced
    unfencing, election = stage.records()[-2:]
    assert unfencing == BrokerRegistrationChangeRecord(
        broker_id=1, broker_epoch=stage.epochs[1], fenced=UNFENCE
    )
    assert isinstance(election, PartitionChangeRecord)
    assert stage.partition("orders").leader == 1


def test_a_broker_that_was_leaving_leads_nothing_when_it_is_unfenced() -> None:
    """Goal: only a new registration ends a controlled shutdown."""
    stage = a_stage(1)
    stage.create("orders", (1,))
    stage.heartbeat(1, stop=True)
    assert stage.heartbeat(1, stop=True).should_shut_down
    assert stage.broker(1).in_controlled_shutdown
    assert not stage.heartbeat(1).is_fenced
    assert stage.partition("orders").leader == -1


def test_fencing_twice_is_a_bug() -> None:
    """Goal: the caller looks first."""
    broker = a_broker(1, fenced=True)
    with pytest.raises(AssertionError, match="fenced already"):
        at_once(fence(a_view(an_image(broker)), broker, FenceReason.SHUTS_DOWN))
