"""Goal: reference pages agree with the code. Method: each page is made anew and compared."""

import pytest
from tools.reference.__main__ import PAGES, is_stale
from tools.reference.errors import errors_page
from tools.reference.events import event_classes

from tidelog.env.event import Kind


@pytest.mark.parametrize("name", PAGES)
def test_generated_pages_agree_with_the_code(name):
    assert not is_stale(name), f"docs/{name} is stale: run `make reference`"


def test_every_public_error_text_has_its_hint():
    lines = [line for line in errors_page().splitlines() if line.lstrip().startswith("- ")]
    assert len(lines) > 100
    for message, hint in zip(lines[::2], lines[1::2], strict=True):
        assert hint.startswith("    - hint: "), message


def test_every_kind_is_the_kind_of_an_event():
    assert {event.kind for event in event_classes() if event.kind} == set(Kind)
