"""Quotas of clients: which there are, for whom, and which values they may have.

A quota belongs to users, client ids, pairs of both, or addresses; a part without a name is the
default for all that have none of their own.

Source: KIP-546, KIP-599, KIP-612; Kafka's `ClientQuotaControlManager`.
"""

from collections.abc import Iterable
from ipaddress import ip_address
from math import isfinite
from typing import Final

from tidelog.metadata.image import QuotaSubject
from tidelog.metadata.records import ClientQuotaRecord, QuotaEntity

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
SUBJECT_TYPES: Final = (USER, CLIENT_ID, IP)

PRODUCE: Final = "producer_byte_rate"
FETCH: Final = "consumer_byte_rate"
REQUEST: Final = "request_percentage"
MUTATION: Final = "controller_mutation_rate"
CONNECTION: Final = "connection_creation_rate"

CLIENT_QUOTAS: Final = (PRODUCE, FETCH, REQUEST, MUTATION)
"""Of users and client ids."""
_WHOLE: Final = {PRODUCE: 2**63 - 1, FETCH: 2**63 - 1, CONNECTION: 2**31 - 1}
"""Those that are whole numbers, and the largest."""


def subject_of(parts: Iterable[tuple[str, str | None]]) -> QuotaSubject:
    """The parts in their order."""
    return tuple(sorted(parts, key=lambda part: part[0]))


def quota_record(
    subject: QuotaSubject, key: str, value: float, *, remove: bool = False
) -> ClientQuotaRecord:
    """The record that sets or removes a quota."""
    entity = tuple(QuotaEntity(entity_type=kind, entity_name=name) for kind, name in subject)
    return ClientQuotaRecord(entity=entity, key=key, value=value, remove=remove)


def fault_of_subject(subject: QuotaSubject) -> str | None:
    """Why there can be no quotas of this."""
    kinds = [kind for kind, _ in subject]
    unknown = [kind for kind in kinds if kind not in SUBJECT_TYPES]
    if not kinds:
        return "Invalid empty client quota entity"
    if unknown:
        return f"Unhandled client quota entity type: {unknown[0]}"
    if len(set(kinds)) < len(kinds):
        return "Invalid client quota entity, duplicate entity entry"
    for kind, name in subject:
        if name == "":
            return f"Empty {kind} not supported"
        if kind == IP and len(kinds) > 1:
            return "Invalid quota entity combination, IP entity should not be combined"
        if kind == IP and name is not None and not is_address(name):
            return f"{name} is not a valid IP"
    return None


def is_address(text: str) -> bool:
    """Whether it is an address of IPv4 or IPv6."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def fault_of_value(subject: QuotaSubject, key: str, value: float) -> str | None:
    """Why a quota of this subject, which is none itself, cannot have this name or value."""
    of_address = any(kind == IP for kind, _ in subject)
    if key not in ((CONNECTION,) if of_address else CLIENT_QUOTAS):
        return f"Invalid configuration key {key}"
    if not isfinite(value):
        return f"Quota {key} must be a number"
    if value <= 0:
        return f"Quota {key} must be greater than 0"
    if key in _WHOLE and value % 1:
        return f"{key} cannot be a fractional value."
    if value > _WHOLE.get(key, value):
        return f"Proposed value for {key} is too large"
    return None
