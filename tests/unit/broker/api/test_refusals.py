"""Refusals of whole requests."""

import pytest

from tidelog.broker.api.refusals import code_of, refusal
from tidelog.controller.messages import Refused, RegisterBrokerResult
from tidelog.errors import ErrorCode


def test_a_refusal_has_code_and_message():
    assert refusal(Refused(ErrorCode.NOT_CONTROLLER, "why")) == (ErrorCode.NOT_CONTROLLER, "why")
    assert code_of(Refused(ErrorCode.NOT_CONTROLLER, "why")) is ErrorCode.NOT_CONTROLLER


def test_a_result_is_no_refusal():
    assert code_of(RegisterBrokerResult(1)) is ErrorCode.NONE
    with pytest.raises(AssertionError, match="unexpected answer"):
        refusal(RegisterBrokerResult(1))
