"""A broker's life towards the controller (KIP-631), state by state."""

import pytest

from tests.unit.broker.one_node import SETTINGS
from tidelog.broker.events import ShutdownForced
from tidelog.broker.features import FEATURES
from tidelog.broker.lifecycle import (
    CATCH_UP_INTERVAL_MS,
    CONTROLLED_SHUTDOWN_LIMIT_MS,
    NO_CONTROLLER_LIMIT_MS,
    RETRY_INTERVAL_MS,
    SHUTDOWN_INTERVAL_MS,
    BrokerLifecycle,
    BrokerState,
)
from tidelog.config import parse_node_config
from tidelog.controller.messages import (
    BrokerHeartbeat,
    BrokerHeartbeatResult,
    Refused,
    RegisterBroker,
    RegisterBrokerResult,
)
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace, TraceList
from tidelog.errors import ErrorCode
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage
from tidelog.metadata.records import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from tidelog.model import Endpoint, Uuid

EPOCH = 40
INTERVAL_MS = 2000
TIMEOUT_MS = 60_000
FENCED = BrokerHeartbeatResult(is_caught_up=True, is_fenced=True, should_shut_down=False)
UNFENCED = BrokerHeartbeatResult(is_caught_up=True, is_fenced=False, should_shut_down=False)
LET_GO = BrokerHeartbeatResult(is_caught_up=True, is_fenced=True, should_shut_down=True)
STALE = Refused(ErrorCode.STALE_BROKER_EPOCH, "stale")


class Life:
    """A lifecycle, its trace, and the calls it makes."""

    def __init__(self, previous_broker_epoch: int = -1, **settings: str) -> None:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        self.trace = TraceList()
        self.lifecycle = BrokerLifecycle(
            config=parse_node_config(SETTINGS | given),
            cluster_id="cluster",
            log_dirs=(Uuid(b"d" * 16),),
            incarnation_id=Uuid(b"i" * 16),
            previous_broker_epoch=previous_broker_epoch,
            trace=Trace(self.trace),
        )

    def call(self, now: int) -> RegisterBroker | BrokerHeartbeat | None:
        return self.lifecycle.next_call(Instant(now))

    def heartbeat(self, now: int) -> BrokerHeartbeat:
        call = self.call(now)
        assert isinstance(call, BrokerHeartbeat), call
        return call

    def answer(self, response: object, now: int) -> None:
        self.lifecycle.on_response(response, Instant(now))

    def running(self) -> "Life":
        """Registered at time 0 and unfenced at time 0."""
        assert isinstance(self.call(0), RegisterBroker)
        self.answer(RegisterBrokerResult(EPOCH), 0)
        self.lifecycle.metadata_offset = EPOCH
        self.heartbeat(0)
        self.answer(UNFENCED, 0)
        assert self.lifecycle.state is BrokerState.RUNNING
        return self


def test_the_first_call_registers_this_process():
    life = Life(previous_broker_epoch=17, broker_rack="north")
    call = life.call(0)
    assert call == RegisterBroker(
        broker_id=1,
        cluster_id="cluster",
        incarnation_id=Uuid(b"i" * 16),
        endpoints=(Endpoint("PLAINTEXT", "host1", 9092),),
        rack="north",
        features=FEATURES,
        log_dirs=(Uuid(b"d" * 16),),
        previous_broker_epoch=17,
    )


def test_one_call_at_a_time():
    life = Life()
    assert life.call(0) is not None
    assert life.call(TIMEOUT_MS - 1) is None
    assert life.lifecycle.deadline() == TIMEOUT_MS


@pytest.mark.parametrize(
    ("response", "why"),
    [
        (None, "no controller answered"),
        (Refused(ErrorCode.NOT_CONTROLLER, "not me"), "no controller answered"),
        (
            Refused(ErrorCode.INCONSISTENT_CLUSTER_ID, "another"),
            "refused with INCONSISTENT_CLUSTER_ID",
        ),
    ],
)
def test_who_is_never_registered_gives_up_in_time(response, why):
    life = Life()
    life.call(100)
    life.answer(response, 100)
    assert life.call(100 + TIMEOUT_MS - 1) is not None
    life.answer(response, 100 + TIMEOUT_MS - 1)
    assert life.lifecycle.failure == ""
    assert life.lifecycle.deadline() == 100 + TIMEOUT_MS
    assert life.call(100 + TIMEOUT_MS) is None
    assert life.lifecycle.state is BrokerState.GONE
    assert f"within {TIMEOUT_MS} ms: {why}; hint: " in life.lifecycle.failure


def test_who_was_registered_once_never_gives_up():
    life = Life().running()
    life.heartbeat(INTERVAL_MS)
    life.answer(STALE, INTERVAL_MS)
    assert isinstance(life.call(10 * TIMEOUT_MS), RegisterBroker)
    life.answer(None, 10 * TIMEOUT_MS)
    assert isinstance(life.call(20 * TIMEOUT_MS), RegisterBroker)
    assert life.lifecycle.failure == ""


@pytest.mark.parametrize(
    "response",
    [
        None,
        Refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION, "still alive"),
        Refused(ErrorCode.NOT_CONTROLLER, "not me"),
    ],
)
def test_a_failed_registration_is_repeated_after_the_interval(response):
    life = Life()
    life.call(0)
    life.answer(response, 5)
    assert life.lifecycle.deadline() == 5 + RETRY_INTERVAL_MS
    assert life.call(5 + RETRY_INTERVAL_MS - 1) is None
    assert isinstance(life.call(5 + RETRY_INTERVAL_MS), RegisterBroker)


def test_a_registered_broker_wants_to_stay_fenced_until_it_has_seen_its_registration():
    life = Life()
    life.call(0)
    life.answer(RegisterBrokerResult(EPOCH), 0)
    life.lifecycle.metadata_offset = EPOCH - 1
    now = 0
    for _ in range(3):
        assert life.heartbeat(now) == BrokerHeartbeat(1, EPOCH, EPOCH - 1, True, False)
        life.answer(FENCED, now + 3)
        assert life.lifecycle.state is BrokerState.CATCHING_UP
        assert life.call(now + 3 + CATCH_UP_INTERVAL_MS - 1) is None
        now += 3 + CATCH_UP_INTERVAL_MS
    life.lifecycle.metadata_offset = EPOCH
    assert life.heartbeat(now) == BrokerHeartbeat(1, EPOCH, EPOCH, False, False)


def test_the_intervals_are_those_of_kafka():
    assert (CATCH_UP_INTERVAL_MS, SHUTDOWN_INTERVAL_MS) == (10, 50)
    assert Life().lifecycle._config.broker.heartbeat_interval_ms == INTERVAL_MS


def test_unfenced_it_runs_and_heartbeats_at_the_interval():
    life = Life().running()
    assert life.lifecycle.unfenced
    assert life.lifecycle.broker_epoch == EPOCH
    assert life.call(INTERVAL_MS - 1) is None
    life.heartbeat(INTERVAL_MS)
    life.answer(UNFENCED, INTERVAL_MS + 4)
    assert life.lifecycle.deadline() == 2 * INTERVAL_MS + 4


def test_a_failed_heartbeat_is_repeated_soon():
    life = Life().running()
    life.heartbeat(INTERVAL_MS)
    life.answer(None, INTERVAL_MS)
    assert life.lifecycle.deadline() == INTERVAL_MS + RETRY_INTERVAL_MS


def test_a_broker_that_was_fenced_says_so_and_heartbeats_to_come_back():
    life = Life().running()
    life.trace.take_lines()
    life.heartbeat(INTERVAL_MS)
    life.answer(FENCED, INTERVAL_MS)
    assert not life.lifecycle.unfenced
    assert life.trace.take_lines() == [f"broker on_response: fenced broker_epoch={EPOCH}"]
    call = life.heartbeat(INTERVAL_MS + CATCH_UP_INTERVAL_MS)
    assert not call.want_fence
    life.answer(UNFENCED, INTERVAL_MS + CATCH_UP_INTERVAL_MS)
    assert life.lifecycle.unfenced


def test_a_stale_epoch_registers_again_with_the_same_incarnation():
    life = Life().running()
    life.heartbeat(INTERVAL_MS)
    life.answer(STALE, INTERVAL_MS)
    assert life.lifecycle.state is BrokerState.REGISTERING
    assert not life.lifecycle.unfenced
    call = life.call(INTERVAL_MS + RETRY_INTERVAL_MS)
    assert isinstance(call, RegisterBroker)
    assert call.incarnation_id == b"i" * 16
    life.answer(RegisterBrokerResult(EPOCH + 9), INTERVAL_MS + RETRY_INTERVAL_MS)
    assert life.lifecycle.broker_epoch == EPOCH + 9
    assert life.heartbeat(INTERVAL_MS + RETRY_INTERVAL_MS).want_fence


def test_a_new_controller_gets_a_heartbeat_at_once():
    life = Life().running()
    life.lifecycle.on_controller_changed(Instant(100))
    assert life.lifecycle.deadline() == 100
    life.heartbeat(100)


def test_a_new_controller_does_not_make_a_second_call_under_way():
    life = Life().running()
    life.heartbeat(INTERVAL_MS)
    life.lifecycle.on_controller_changed(Instant(INTERVAL_MS + 1))
    assert life.call(INTERVAL_MS + 1) is None


def test_equal_refusals_in_a_row_are_one_line():
    life = Life()
    life.trace.take_lines()
    for _ in range(3):
        life.call(life.lifecycle.deadline())
        life.answer(Refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION, "still alive"), 0)
        life.lifecycle.on_controller_changed(Instant(0))
    assert life.trace.take_lines() == [
        "broker on_response: refused (still alive) code=DUPLICATE_BROKER_REGISTRATION"
    ]
    life.call(0)
    life.answer(Refused(ErrorCode.INVALID_REGISTRATION, "no"), 0)
    assert len(life.trace.take_lines()) == 1


def test_features_that_keep_the_broker_out_are_named_with_the_command_that_lowers_them():
    """Once, however often the controller refuses, and as soon as the metadata has them."""
    life = Life()
    refused = Refused(ErrorCode.UNSUPPORTED_VERSION, "")
    lines = []
    for finalised in ({}, {"streams.version": 1, "metadata.version": 29}, {"streams.version": 1}):
        life.lifecycle.finalised = finalised
        life.call(0)
        life.answer(refused, 0)
        life.lifecycle.on_controller_changed(Instant(0))
        lines += life.trace.take_lines()
    command = "kafka-features.sh --bootstrap-server HOST:PORT downgrade --feature streams.version=0"
    assert [line for line in lines if "streams" in line] == [
        "broker on_response: not admitted (`streams.version` is 1, this node serves 0 at most; "
        f"hint: `{command}`)"
    ]
    life.call(TIMEOUT_MS)
    assert f"UNSUPPORTED_VERSION; hint: run `{command}`" in life.lifecycle.failure


# Leaving -----------------------------------------------------------------------------------


def test_leaving_asks_the_controller_until_it_lets_go():
    life = Life().running()
    life.lifecycle.begin_shutdown(Instant(500))
    assert life.lifecycle.state is BrokerState.LEAVING
    call = life.heartbeat(500)
    assert call.want_shut_down and not call.want_fence
    life.answer(UNFENCED, 510)
    assert life.lifecycle.state is BrokerState.LEAVING
    assert life.call(510 + SHUTDOWN_INTERVAL_MS - 1) is None
    assert life.heartbeat(510 + SHUTDOWN_INTERVAL_MS).want_shut_down
    life.answer(LET_GO, 600)
    assert life.lifecycle.state is BrokerState.GONE
    assert life.lifecycle.deadline() is None
    assert life.call(9999) is None


def test_a_broker_that_never_registered_leaves_at_once():
    life = Life()
    life.lifecycle.begin_shutdown(Instant(0))
    assert life.lifecycle.state is BrokerState.GONE


def test_without_controlled_shutdown_it_leaves_at_once():
    life = Life(controlled_shutdown_enable="false").running()
    life.lifecycle.begin_shutdown(Instant(0))
    assert life.lifecycle.state is BrokerState.GONE


@pytest.mark.parametrize(
    ("response", "limit_ms"),
    [(None, NO_CONTROLLER_LIMIT_MS), (UNFENCED, CONTROLLED_SHUTDOWN_LIMIT_MS)],
    ids=["no controller", "one that never lets go"],
)
def test_a_broker_that_is_not_let_go_leaves_at_a_limit(response, limit_ms):
    life = Life().running()
    life.lifecycle.begin_shutdown(Instant(0))
    now = 0
    while life.lifecycle.state is BrokerState.LEAVING:
        now = life.lifecycle.deadline()
        if life.call(now) is not None:
            life.answer(response, now)
    assert now == limit_ms


def test_a_controller_that_never_answers_does_not_hold_a_leaving_broker():
    life = Life().running()
    life.lifecycle.begin_shutdown(Instant(0))
    life.heartbeat(0)
    assert life.lifecycle.deadline() == CONTROLLED_SHUTDOWN_LIMIT_MS
    assert life.call(CONTROLLED_SHUTDOWN_LIMIT_MS) is None
    assert life.lifecycle.state is BrokerState.GONE


def test_a_controller_that_moves_many_leaderships_is_waited_for():
    life = Life().running()
    life.lifecycle.begin_shutdown(Instant(0))
    life.heartbeat(0)
    assert life.call(3 * NO_CONTROLLER_LIMIT_MS) is None
    life.answer(LET_GO, 3 * NO_CONTROLLER_LIMIT_MS)
    assert life.lifecycle.state is BrokerState.GONE
    assert not any(isinstance(each, ShutdownForced) for each in life.trace.events)


def test_the_time_of_a_call_that_failed_is_not_spent_on_looking_for_a_controller():
    life = Life().running()
    life.lifecycle.begin_shutdown(Instant(0))
    life.heartbeat(0)
    life.answer(None, 4000)
    assert life.heartbeat(4000 + RETRY_INTERVAL_MS).want_shut_down
    life.answer(None, 4000 + RETRY_INTERVAL_MS)
    assert life.call(4000 + NO_CONTROLLER_LIMIT_MS) is None
    assert life.lifecycle.state is BrokerState.GONE


def test_a_stale_epoch_while_leaving_means_that_no_controller_waits_for_us():
    life = Life().running()
    life.lifecycle.begin_shutdown(Instant(0))
    life.heartbeat(0)
    life.answer(STALE, 1)
    assert life.lifecycle.state is BrokerState.GONE


def test_a_second_stop_request_does_not_extend_the_limit():
    life = Life().running()
    life.lifecycle.begin_shutdown(Instant(0))
    life.lifecycle.begin_shutdown(Instant(900))
    assert life.lifecycle.deadline() == 0
    life.heartbeat(0)
    life.answer(None, 0)
    assert life.call(NO_CONTROLLER_LIMIT_MS) is None
    assert life.lifecycle.state is BrokerState.GONE


@pytest.mark.parametrize("response", [UNFENCED, STALE, RegisterBrokerResult(99), None])
def test_a_late_answer_does_not_call_back_a_broker_that_is_gone(response):
    life = Life(controlled_shutdown_enable="false")
    life.call(0)
    life.answer(RegisterBrokerResult(EPOCH), 0)
    life.heartbeat(0)
    life.lifecycle.begin_shutdown(Instant(1))
    life.answer(response, 1)
    assert life.lifecycle.state is BrokerState.GONE


@pytest.mark.parametrize("seed", range(20))
def test_a_leaving_broker_is_gone_in_time_whatever_the_controller_does(seed):
    """Random answers and silences: one call in flight, the epoch of a life never falls, and a stop
    ends within its limit."""
    prng, now = Prng(seed), 0
    life = Life()
    lifecycle = life.lifecycle
    under_way: object | None = None
    next_epoch, stop_at = 10, prng.between(0, 5000)
    stopped_at: int | None = None
    while lifecycle.state is not BrokerState.GONE:
        now += prng.below(60)
        if stopped_at is None and now >= stop_at:
            lifecycle.begin_shutdown(Instant(now))
            stopped_at = now
        call = life.call(now)
        if call is not None:
            assert under_way is None, "two calls under way"
            under_way = call
        elif under_way is not None and prng.chance(1, 2):
            before = lifecycle.broker_epoch
            if isinstance(under_way, RegisterBroker):
                next_epoch += 1
                options = (RegisterBrokerResult(next_epoch), None, STALE)
            else:
                options = (UNFENCED, UNFENCED, FENCED, STALE, None)
            life.answer(prng.choice(options), now)
            under_way = None
            assert lifecycle.broker_epoch >= before
        if lifecycle.unfenced:
            assert lifecycle.broker_epoch > 0
    assert stopped_at is not None
    assert now - stopped_at <= CONTROLLED_SHUTDOWN_LIMIT_MS + 60


def image_with_leaving(offset: int, *node_ids: int) -> MetadataImage:
    delta = MetadataDelta(EMPTY_IMAGE)
    for node_id in node_ids:
        delta.replay(a_registration(node_id), node_id)
        leaves = BrokerRegistrationChangeRecord(
            broker_id=node_id, broker_epoch=node_id, in_controlled_shutdown=1
        )
        delta.replay(leaves, offset)
    return delta.apply(offset, 1)


def a_registration(node_id: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=node_id,
        incarnation_id=Uuid(bytes([node_id]) * 16),
        broker_epoch=node_id,
        end_points=(),
        features=(),
        rack=None,
        fenced=False,
    )


def test_a_broker_says_at_once_that_it_knows_who_leaves():
    """The one that leaves waits for that."""
    life = Life().running()
    life.lifecycle.on_image(image_with_leaving(50, 2))
    assert life.call(100) is None
    life.lifecycle.metadata_offset = 50
    assert life.lifecycle.deadline() == 0
    assert life.heartbeat(101).current_metadata_offset == 50
    assert life.lifecycle.deadline() > 101
    life.answer(UNFENCED, 102)
    life.lifecycle.metadata_offset = 51
    life.lifecycle.on_image(image_with_leaving(51, 2))
    assert life.call(103) is None


def test_its_own_leaving_and_that_of_a_registration_under_way_are_not_waited_for():
    own = Life().running()
    own.lifecycle.on_image(image_with_leaving(50, 1))
    own.lifecycle.metadata_offset = 50
    assert own.call(100) is None
    new = Life()
    assert isinstance(new.call(0), RegisterBroker)
    new.lifecycle.on_image(image_with_leaving(50, 2))
    new.lifecycle.metadata_offset = 50
    new.answer(None, 1)
    assert new.call(2) is None
