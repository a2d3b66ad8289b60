"""A loss ends a query, or is a warning and the query goes on; errors cross process borders."""

import logging
import pickle

import pytest

from tidelog.pipeline.errors import DataLoss, WriteFailed, fail_or_warn
from tidelog.pipeline.values import OffsetRange, ReadRules

_LOSS = DataLoss(OffsetRange("t", 0, 3, 10), "the log has [5, 10)")


def test_a_query_fails_by_its_loss(caplog):
    with pytest.raises(DataLoss) as caught:
        fail_or_warn(_LOSS, ReadRules(()))
    assert caught.value is _LOSS
    assert not caplog.records


def test_a_query_that_may_go_on_warns_of_what_is_lost(caplog):
    fail_or_warn(_LOSS, ReadRules((), fail_on_data_loss=False))
    (logged,) = caplog.records
    assert (logged.name, logged.levelno) == ("tidelog.pipeline", logging.WARNING)
    assert logged.getMessage() == (
        "`t-0` [3, 10): the log has [5, 10); goes on because `failOnDataLoss` is false"
    )


@pytest.mark.parametrize("error", [_LOSS, WriteFailed("orders-3", "NOT_ENOUGH", "wait")])
def test_an_error_that_was_pickled_says_the_same(error):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
