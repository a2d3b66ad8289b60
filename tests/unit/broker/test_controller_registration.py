"""A controller registers once in each life, and tries until the image shows it."""

from dataclasses import replace

from tests.unit.broker.one_node import SETTINGS
from tidelog.broker.controller_registration import LAST_RETRY_MS, ControllerRegistration
from tidelog.config import parse_node_config
from tidelog.controller.messages import Refused, RegisterControllerResult
from tidelog.env.instant import Instant
from tidelog.env.trace import Trace, TraceList
from tidelog.errors import ErrorCode
from tidelog.metadata.image import EMPTY_IMAGE, ControllerImage
from tidelog.model import Uuid

OURS, OTHER = Uuid(b"i" * 16), Uuid(b"o" * 16)
KNOWN = replace(EMPTY_IMAGE, features={"metadata.version": 30})


def registered(incarnation_id: Uuid):
    """An image in which node 1 is a controller."""
    return replace(KNOWN, controllers={1: ControllerImage(1, incarnation_id, (), {})})


def made() -> tuple[ControllerRegistration, TraceList]:
    lines = TraceList()
    return ControllerRegistration(parse_node_config(SETTINGS), OURS, Trace(lines)), lines


def test_nothing_is_sent_before_the_metadata_knows_controllers() -> None:
    registration, _ = made()
    registration.on_image(replace(EMPTY_IMAGE, features={"metadata.version": 14}))
    assert registration.next_call(Instant(0)) is None
    assert registration.deadline() is None


def test_one_call_is_under_way_and_only_the_image_ends_it() -> None:
    registration, _ = made()
    registration.on_image(KNOWN)
    call = registration.next_call(Instant(5))
    assert call is not None
    assert (call.controller_id, call.incarnation_id) == (1, OURS)
    assert [e.listener for e in call.endpoints] == ["CONTROLLER"]
    assert registration.next_call(Instant(5)) is None
    registration.on_response(RegisterControllerResult(), Instant(10))
    assert registration.next_call(Instant(10)) is None, "it waits for the image first"
    registration.on_image(registered(OURS))
    assert registration.next_call(Instant(10_000)) is None
    registration.on_image(registered(OTHER))
    assert registration.next_call(Instant(10_000)) is not None, "another process took the name"


def test_pauses_double_and_a_new_leader_is_asked_at_once() -> None:
    registration, _ = made()
    registration.on_image(KNOWN)
    now, pauses = Instant(0), []
    for _ in range(10):
        assert registration.next_call(now) is not None
        registration.on_response(None, now)
        due = registration.deadline()
        assert due is not None
        pauses.append(due - now)
        now = due
    assert pauses[:3] == [100, 200, 400]
    assert pauses[-1] == LAST_RETRY_MS
    assert registration.next_call(now) is not None
    registration.on_response(None, now)
    registration.on_controller_changed(now)
    assert registration.next_call(now) is not None


def test_a_row_of_refusals_is_one_line() -> None:
    registration, lines = made()
    registration.on_image(KNOWN)
    for now in (Instant(0), Instant(10_000)):
        assert registration.next_call(now) is not None
        registration.on_response(Refused(ErrorCode.UNSUPPORTED_VERSION, "too old"), now)
    warnings = [line for line in lines.take_lines() if "refused" in line]
    assert len(warnings) == 1
