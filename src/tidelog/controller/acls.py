"""Access control entries: written and removed by administrators.

An entry is decided by itself: one that is wrong is refused, and the others are written. Asking for
an entry that exists is a success and writes nothing, so a request may be repeated. An entry has an
id, which only the records know.

Source: KIP-140, KIP-801; Kafka's `AclControlManager`.
"""

from tidelog.controller.acl_messages import (
    AclOutcome,
    CreateAcls,
    CreateAclsResult,
    DeleteAcls,
    DeleteAclsResult,
    DeletedAcls,
)
from tidelog.controller.view import ControllerDecision, View
from tidelog.errors import ErrorCode
from tidelog.metadata.acls import (
    WILDCARD,
    AclEntry,
    entry_of,
    fault_of_entry,
    fault_of_filter,
    matches,
)
from tidelog.metadata.quotas import is_address
from tidelog.metadata.records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from tidelog.model import Uuid


def decide_create_acls(view: View, request: CreateAcls) -> ControllerDecision:
    """One record for each entry that is new."""
    known = set(map(entry_of, view.image.acls.values()))
    records, results = [], []
    for entry in request.entries:
        fault = fault_of_entry(entry, is_host=entry.host == WILDCARD or is_address(entry.host))
        if fault is not None:
            results.append(AclOutcome(ErrorCode.INVALID_REQUEST, fault))
            continue
        results.append(AclOutcome(ErrorCode.NONE))
        if entry not in known:
            known.add(entry)
            records.append(_record(Uuid(view.prng.uuid()), entry))
    view.check_atomic(records)
    return ControllerDecision(CreateAclsResult(tuple(results)), records)


def _record(acl_id: Uuid, entry: AclEntry) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(id=acl_id, **entry._asdict())


def decide_delete_acls(view: View, request: DeleteAcls) -> ControllerDecision:
    """One removal for each entry that a filter finds."""
    known = [(record.id, entry_of(record)) for record in view.image.acls.values()]
    gone: dict[Uuid, None] = {}
    results = []
    for wanted in request.filters:
        fault = fault_of_filter(wanted)
        if fault is not None:
            results.append(DeletedAcls(ErrorCode.INVALID_REQUEST, fault))
            continue
        found = [(acl_id, entry) for acl_id, entry in known if matches(wanted, entry)]
        gone.update((acl_id, None) for acl_id, _ in found)
        results.append(DeletedAcls(ErrorCode.NONE, None, tuple(entry for _, entry in found)))
    records = [RemoveAccessControlEntryRecord(id=acl_id) for acl_id in gone]
    view.check_atomic(records)
    return ControllerDecision(DeleteAclsResult(tuple(results)), records)
