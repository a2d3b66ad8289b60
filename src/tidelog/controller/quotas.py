"""Quotas of clients: set and removed by administrators.

Each subject is decided by itself: what is wrong with one of its changes refuses all of its changes,
and those of the others are written. A value that is there already, or a removal of what is not
there, writes nothing, so a request may be repeated.

Source: KIP-546; Kafka's `ClientQuotaControlManager`.
"""

from tidelog.controller.quota_messages import (
    AlterClientQuotas,
    AlterClientQuotasResult,
    AlterQuotas,
    QuotaOutcome,
)
from tidelog.controller.view import ControllerDecision, View
from tidelog.errors import ErrorCode
from tidelog.metadata.image import QuotaSubject
from tidelog.metadata.quotas import fault_of_subject, fault_of_value, quota_record, subject_of
from tidelog.metadata.records import MetadataRecord


def decide_alter_quotas(view: View, request: AlterClientQuotas) -> ControllerDecision:
    """One record for each value that changes."""
    records: list[MetadataRecord] = []
    results: list[QuotaOutcome] = []
    seen: set[QuotaSubject] = set()
    for asked in request.entries:
        subject = subject_of(asked.entity)
        fault = _fault(subject, asked)
        if fault is None and subject in seen:
            fault = "Ignoring duplicate entity"
        seen.add(subject)
        if fault is not None:
            results.append(QuotaOutcome(asked.entity, ErrorCode.INVALID_REQUEST, fault))
            continue
        results.append(QuotaOutcome(asked.entity))
        present = view.image.quotas.get(subject, {})
        for key, value, remove in asked.ops:
            if key in present if remove else present.get(key) != value:
                records.append(quota_record(subject, key, value, remove=remove))
    view.check_atomic(records)
    result = AlterClientQuotasResult(tuple(results))
    return ControllerDecision(result, [] if request.validate_only else records)


def _fault(subject: QuotaSubject, asked: AlterQuotas) -> str | None:
    keys = [change.key for change in asked.ops]
    if len(set(keys)) < len(keys):
        return "Duplicate quota key, not updating quota for this entity"
    faults = [fault_of_subject(subject)]
    if faults[0] is None:
        faults = [fault_of_value(subject, *each[:2]) for each in asked.ops if not each.remove]
    return next((fault for fault in faults if fault is not None), None)
