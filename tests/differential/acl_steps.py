"""Requests about access control entries, which are all of a principal that does not connect."""

from collections.abc import Mapping
from typing import Any, Final

from tests.differential.admin_steps import Draw
from tests.differential.drafts import Draft
from tidelog.wire.api import ApiKey as K


def _filter(draft: Draft) -> dict[str, Any]:
    return {
        "resource_type_filter": draft.good_or(1, 2, 3),
        "resource_name_filter": draft.good_or(None, draft.topic()),
        "pattern_type_filter": draft.good_or(1, 2, 3),
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }


def describe_acls(draft: Draft, usual: str) -> None:
    draft.add(K.DESCRIBE_ACLS, draft.admin_slot, **_filter(draft))


def create_acls(draft: Draft, usual: str) -> None:
    entry = {
        "resource_type": 2,
        "resource_name": draft.topic(),
        "resource_pattern_type": draft.good_or(3, 4),
        "principal": "User:ada",
        "host": "*",
        "operation": 3,
        "permission_type": draft.good_or(3, 2),
    }
    draft.add(K.CREATE_ACLS, draft.admin_slot, creations=draft.good_or([entry], []))


def delete_acls(draft: Draft, usual: str) -> None:
    draft.add(K.DELETE_ACLS, draft.admin_slot, filters=draft.good_or([_filter(draft)], []))


ACL_DRAWS: Final[Mapping[K, Draw]] = {
    K.DESCRIBE_ACLS: describe_acls,
    K.CREATE_ACLS: create_acls,
    K.DELETE_ACLS: delete_acls,
}
