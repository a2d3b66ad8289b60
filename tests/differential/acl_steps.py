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


def ask_about_tokens(key: K) -> Draw:
    """About delegation tokens, which no broker gives out without a login."""
    principal = {"principal_type": "User", "principal_name": "ada"}
    values: dict[K, dict[str, Any]] = {
        K.CREATE_DELEGATION_TOKEN: {
            "owner_principal_type": None,
            "owner_principal_name": None,
            "renewers": [principal],
            "max_lifetime": -1,
        },
        K.RENEW_DELEGATION_TOKEN: {"hmac": b"code", "renew_period": -1},
        K.EXPIRE_DELEGATION_TOKEN: {"hmac": b"code", "expiry_time_period": -1},
        K.DESCRIBE_DELEGATION_TOKEN: {"owners": None},
    }

    def draw(draft: Draft, usual: str) -> None:
        draft.add(key, draft.admin_slot, **values[key])

    return draw


ACL_DRAWS: Final[Mapping[K, Draw]] = {
    **{
        key: ask_about_tokens(key)
        for key in (
            *(K.CREATE_DELEGATION_TOKEN, K.RENEW_DELEGATION_TOKEN),
            *(K.EXPIRE_DELEGATION_TOKEN, K.DESCRIBE_DELEGATION_TOKEN),
        )
    },
    K.DESCRIBE_ACLS: describe_acls,
    K.CREATE_ACLS: create_acls,
    K.DELETE_ACLS: delete_acls,
}
