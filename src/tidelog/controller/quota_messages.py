"""What administrators ask of the controller about quotas, and what it answers; see
`messages.py`."""

from typing import NamedTuple

from tidelog.errors import ErrorCode


class QuotaPart(NamedTuple):
    """A part of whose quotas it is; no name is the default of the type."""

    entity_type: str
    entity_name: str | None


class QuotaChange(NamedTuple):
    """A quota that is set, or removed."""

    key: str
    value: float
    remove: bool


class AlterQuotas(NamedTuple):
    """The changes for one user, client id, pair or address."""

    entity: tuple[QuotaPart, ...]
    ops: tuple[QuotaChange, ...]


class AlterClientQuotas(NamedTuple):
    """Changes of quotas (API 49)."""

    entries: tuple[AlterQuotas, ...]
    validate_only: bool


class QuotaOutcome(NamedTuple):
    """What became of the changes for one."""

    entity: tuple[QuotaPart, ...]
    error_code: ErrorCode = ErrorCode.NONE
    message: str | None = None


class AlterClientQuotasResult(NamedTuple):
    """In the order of the request."""

    entries: tuple[QuotaOutcome, ...]
