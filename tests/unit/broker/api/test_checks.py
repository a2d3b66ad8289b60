"""The matrix: every API of the table, its lowest and highest version, each kind of principal, and
resources that exist, do not exist, and cannot exist.

The expectations are written by hand (`rights_table.py`). A denied answer has the code of the table
and no other code of an authorizer, and does not show what exists. An allowed answer has no code of
an authorizer, whatever else is wrong with the request.
"""

from typing import Final

import pytest

from tests.unit.broker.authorization_matrix import (
    ABSENT,
    CODES,
    KINDS,
    NAMES,
    PRESENT,
    Case,
    Office,
    by_row,
    check_case,
    codes_of,
    entries_of,
    names_by_id,
    the_cases,
    without,
)
from tests.unit.broker.rights_table import (
    BROKER,
    BY_ANSWER,
    BY_TOKEN_RULES,
    CLUSTER,
    CONTROLLER,
    FREE,
    NEEDS,
    TOPIC,
)
from tidelog.broker.api.catalogue import APIS
from tidelog.broker.api.checks import Operations
from tidelog.broker.api.declaration import Listener
from tidelog.model import ANONYMOUS, ZERO_TOPIC_ID, Principal
from tidelog.wire.api import ApiKey
from tidelog.wire.api import ApiKey as K
from tidelog.wire.values import uuid_of


@pytest.fixture(scope="module")
def office() -> Office:
    return Office()


@pytest.mark.parametrize("api", by_row())
def test_what_is_denied_has_the_code_of_the_table(office: Office, api: str) -> None:
    """Goal: every kind of principal that lacks one right, and has all others."""
    who = Principal("User", "ada")
    for case in by_row()[api]:
        if not KINDS[case.kind].allowed:
            check_case(office, case, who)


@pytest.mark.parametrize("api", by_row())
def test_what_is_denied_does_not_show_what_exists(office: Office, api: str) -> None:
    """Goal: the same answer about a topic that is there, one that is not, and one that cannot
    be. An id is not a secret: an unknown one is answered as unknown."""
    who, answers = Principal("User", "ada"), {}
    for case in by_row()[api]:
        is_about_topics = any(kind == TOPIC for _, kind in case.need.alternatives)
        if case.kind == "none" and is_about_topics and not names_by_id(case):
            answer = office.ask(case, entries_of(case, str(who)), who)
            shown = without(answer, (case.name, uuid_of(office.ids[case.name])))
            assert answers.setdefault((case.row, case.version, case.place)[1:], shown) == shown, (
                case
            )


_ENDS: Final = frozenset(
    (
        *(K.UNREGISTER_BROKER, K.ADD_RAFT_VOTER, K.REMOVE_RAFT_VOTER, K.UPDATE_RAFT_VOTER),
        *(K.VOTE, K.BEGIN_QUORUM_EPOCH, K.END_QUORUM_EPOCH, K.BROKER_REGISTRATION),
        *(K.BROKER_HEARTBEAT, K.CONTROLLER_REGISTRATION, K.UPDATE_FEATURES),
    )
)
"""What a wild request could end the node's life with; the denial is tested, which is the point."""


@pytest.fixture(scope="module")
def worn() -> Office:
    """A node that requests have changed as they may."""
    return Office()


@pytest.mark.parametrize("api", by_row())
def test_what_is_allowed_has_no_code_of_an_authorizer(worn: Office, api: str) -> None:
    """Goal: every kind of principal with the right, also a super user."""
    cases = [case for case in by_row()[api] if KINDS[case.kind].allowed]
    if cases[0].row.key in _ENDS:
        return
    for case in cases:
        check_case(worn, case, Principal("User", "ada"))
    answer = worn.ask(cases[0], [], ANONYMOUS)
    assert not (codes_of(answer) if answer is not None else set()) & CODES


def test_the_matrix_has_every_api() -> None:
    """Goal: an API without a row is noticed, and the number of cases is what the issue asks."""
    served = {api.key for api in APIS}
    others = FREE | BY_ANSWER | BY_TOKEN_RULES | {K.ENVELOPE}
    assert served - {row.key for row in NEEDS} == others
    assert sum(1 for _ in the_cases()) >= 5000


def test_names_of_the_matrix_are_what_they_say(office: Office) -> None:
    image = office.node.broker.image
    assert PRESENT in image.topics_by_name
    assert ABSENT not in image.topics_by_name
    assert office.ids[PRESENT] != ZERO_TOPIC_ID
    assert {BROKER, CONTROLLER} == {row.listener for row in NEEDS}
    assert CLUSTER not in NAMES


# Ablations ---------------------------------------------------------------------------------


_SHOWN_ONLY = ("_ShownConfigs", "_HiddenMembers", "ListedInside", "Secured")
"""What changes answers that are allowed; `test_authorization.py` has them, and DeleteTopics, which
needs two rights of which one implies the other."""


def ablations() -> list[tuple[str, int]]:
    """Each check of each API of the matrix, by its place."""
    found = []
    for name, cases in by_row().items():
        api = _api(name, cases)
        for place, check in enumerate(api.requires):
            is_shown = isinstance(check, Operations) or type(check).__name__ in _SHOWN_ONLY
            is_elsewhere = api.key is ApiKey.DELETE_TOPICS
            if not (check.in_handler or is_shown or is_elsewhere):
                found.append((name, place))
    return found


def _api(name: str, cases: list[Case]):
    is_controller = name.startswith(CONTROLLER)
    return APIS.table(Listener.CONTROLLER if is_controller else Listener.BROKER)[cases[0].row.key]


@pytest.mark.parametrize(("name", "place"), ablations())
def test_a_check_that_is_forgotten_is_noticed(office: Office, name: str, place: int) -> None:
    cases = by_row()[name]
    api = _api(name, cases)
    whole = api.requires
    object.__setattr__(api, "requires", (*whole[:place], *whole[place + 1 :]))
    try:
        assert _is_noticed(office, cases)
    finally:
        object.__setattr__(api, "requires", whole)


def _is_noticed(office: Office, cases: list[Case]) -> bool:
    for case in cases:
        if case.kind == "none":
            try:
                check_case(office, case, Principal("User", "ada"))
            except AssertionError:
                return True
    return False
