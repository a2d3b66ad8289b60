"""What the controller decides about access control entries."""

import pytest

from tests.unit.controller.harness import CONFIG, a_view, after, an_image
from tidelog.controller.acl_messages import CreateAcls, DeleteAcls
from tidelog.controller.acls import decide_create_acls, decide_delete_acls
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.metadata.acls import AclEntry, AclFilter, entry_of

GOOD = AclEntry(2, "orders", 3, "User:ada", "::1", 3, 3)
EVERY = AclFilter(1, None, 1, None, None, 1, 1)


def test_entries_that_are_new_become_records() -> None:
    image = an_image()
    bad = GOOD._replace(host="a host")
    decided = decide_create_acls(a_view(image), CreateAcls((GOOD, bad, GOOD)))
    assert [each.error_code for each in decided.response.results] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
    ]
    assert [entry_of(record) for record in decided.records] == [GOOD]
    image = after(image, decided.records)
    assert not decide_create_acls(a_view(image, seed=2), CreateAcls((GOOD,))).records


def test_a_removal_is_one_record_for_each_entry_that_any_filter_finds() -> None:
    image = an_image()
    other = GOOD._replace(operation=4)
    made = decide_create_acls(a_view(image), CreateAcls((GOOD, other)))
    image = after(image, made.records)
    wanted = EVERY, EVERY._replace(operation=4), EVERY._replace(operation=16)
    decided = decide_delete_acls(a_view(image), DeleteAcls(wanted))
    assert [each.found for each in decided.response.results] == [(GOOD, other), (other,), ()]
    assert decided.response.results[2].error_code is ErrorCode.INVALID_REQUEST
    assert len(decided.records) == 2
    assert after(image, decided.records).acls == {}


def test_more_entries_than_a_batch_may_hold_are_refused() -> None:
    many = tuple(
        GOOD._replace(resource_name=f"t{number}")
        for number in range(CONFIG.max_records_per_batch + 1)
    )
    with pytest.raises(ProtocolError, match="several requests"):
        decide_create_acls(a_view(an_image()), CreateAcls(many))
