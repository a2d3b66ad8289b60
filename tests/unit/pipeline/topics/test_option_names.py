"""Options by name, and words of which one must be given."""

import pytest

from tidelog.errors import UsageError
from tidelog.pipeline.topics.option_names import Option, one_of


def test_an_option_is_the_text_that_users_write():
    assert f"{Option.SUBSCRIBE}" == "subscribe"
    assert {"subscribe": "a"}[Option.SUBSCRIBE] == "a"
    assert len({option.lower() for option in Option}) == len(Option)


def test_one_of_two_words_is_given_in_any_case_or_left_to_the_default():
    words = ("true", "false")
    assert one_of({"failOnDataLoss": "FALSE"}, Option.FAIL_ON_DATA_LOSS, words, "true") == "false"
    assert one_of({}, Option.FAIL_ON_DATA_LOSS, words, "true") == "true"
    with pytest.raises(UsageError, match="`failOnDataLoss` is `no`") as caught:
        one_of({"failOnDataLoss": "no"}, Option.FAIL_ON_DATA_LOSS, words, "true")
    assert caught.value.hint == "give `true` or `false`"
