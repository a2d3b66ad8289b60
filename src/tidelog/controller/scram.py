"""Changes of SCRAM credentials: AlterUserScramCredentials decided.

A client sends a salt and the salted password, never the password; the controller derives the keys
that servers keep. Users are decided one by one: what is wrong with one does not stop the others. A
user that one request names twice, for whatever mechanisms, is changed in nothing.

Source: KIP-554; Kafka's `ScramControlManager`.
"""

from collections import Counter

from tidelog.controller.messages import (
    AlterScramCredentials,
    AlterScramCredentialsResult,
    ScramDeletion,
    ScramResult,
    ScramUpsertion,
)
from tidelog.controller.view import ControllerDecision, View
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.limits import MAX_SCRAM_ITERATIONS, MIN_SCRAM_ITERATIONS
from tidelog.metadata.records import MetadataRecord, RemoveUserScramCredentialRecord
from tidelog.metadata.scram_keys import SCRAM_MECHANISMS, scram_record


def decide_alter_scram(view: View, request: AlterScramCredentials) -> ControllerDecision:
    """A result for each user, in the order of their first mention."""
    changes: tuple[ScramDeletion | ScramUpsertion, ...] = request.deletions + request.upsertions
    named = Counter(change.name for change in changes)
    results: list[ScramResult] = []
    records: list[MetadataRecord] = []
    for change in {change.name: change for change in reversed(changes)}.values():
        try:
            if named[change.name] > 1:
                text = "A user credential cannot be altered twice in the same request"
                raise ProtocolError(ErrorCode.DUPLICATE_RESOURCE, text)
            records.append(_record(view, change))
            results.append(ScramResult(change.name))
        except ProtocolError as error:
            results.append(ScramResult(change.name, error.code, error.message))
    results.reverse()
    view.check_atomic(records)
    return ControllerDecision(AlterScramCredentialsResult(tuple(results)), records)


def _record(view: View, change: ScramDeletion | ScramUpsertion) -> MetadataRecord:
    if not change.name:
        raise _unacceptable("Username must not be empty")
    mechanism = SCRAM_MECHANISMS.get(change.mechanism)
    if mechanism is None:
        raise ProtocolError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, ScramDeletion):
        if view.image.scram_credential(change.name, change.mechanism) is None:
            text = "Attempt to delete a user credential that does not exist"
            raise ProtocolError(ErrorCode.RESOURCE_NOT_FOUND, text)
        return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)
    if change.iterations < MIN_SCRAM_ITERATIONS:
        raise _unacceptable("Too few iterations")
    if change.iterations > MAX_SCRAM_ITERATIONS:
        raise _unacceptable("Too many iterations")
    if not change.salted_password:
        raise ProtocolError(ErrorCode.UNKNOWN_SERVER_ERROR, "The salted password is empty")
    salted, salt = change.salted_password, change.salt
    return scram_record(change.name, mechanism, salted, salt, change.iterations)


def _unacceptable(text: str) -> ProtocolError:
    return ProtocolError(ErrorCode.UNACCEPTABLE_CREDENTIAL, text)
