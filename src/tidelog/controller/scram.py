"""Changes of SCRAM credentials: AlterUserScramCredentials decided.

A client sends a salt and the salted password, never the password; the controller derives the keys
that servers keep. Users are decided one by one: what is wrong with one does not stop the others. A
user that one request names twice, for whatever mechanisms, is changed in nothing; the answer is
what is wrong with the first change that cannot be, else DUPLICATE_RESOURCE.

Source: KIP-554; Kafka's `ScramControlManager`.
"""

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
    # By user.
    results: dict[str, ScramResult] = {}
    changed: dict[str, ScramDeletion | ScramUpsertion] = {}
    for change in changes:
        name = change.name
        if name in results and name not in changed:
            continue
        try:
            if name in changed:
                text = "A user credential cannot be altered twice in the same request"
                raise ProtocolError(ErrorCode.DUPLICATE_RESOURCE, text)
            _check(view, change)
        except ProtocolError as error:
            changed.pop(name, None)
            results[name] = ScramResult(name, error.code, error.message)
        else:
            changed[name], results[name] = change, ScramResult(name)
    records: list[MetadataRecord] = []
    for name, change in changed.items():
        try:
            records.append(_record(change))
        except ProtocolError as error:
            results[name] = ScramResult(name, error.code, error.message)
    view.check_atomic(records)
    return ControllerDecision(AlterScramCredentialsResult(tuple(results.values())), records)


def _check(view: View, change: ScramDeletion | ScramUpsertion) -> None:
    if not change.name:
        raise _unacceptable("Username must not be empty")
    if change.mechanism not in SCRAM_MECHANISMS:
        raise ProtocolError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, ScramDeletion):
        if view.image.scram_credential(change.name, change.mechanism) is None:
            text = "Attempt to delete a user credential that does not exist"
            raise ProtocolError(ErrorCode.RESOURCE_NOT_FOUND, text)
    elif change.iterations < MIN_SCRAM_ITERATIONS:
        raise _unacceptable("Too few iterations")
    elif change.iterations > MAX_SCRAM_ITERATIONS:
        raise _unacceptable("Too many iterations")


def _record(change: ScramDeletion | ScramUpsertion) -> MetadataRecord:
    if isinstance(change, ScramDeletion):
        return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)
    if not change.salted_password:
        raise ProtocolError(ErrorCode.UNKNOWN_SERVER_ERROR, "The salted password is empty")
    mechanism, salted = SCRAM_MECHANISMS[change.mechanism], change.salted_password
    return scram_record(change.name, mechanism, salted, change.salt, change.iterations)


def _unacceptable(text: str) -> ProtocolError:
    return ProtocolError(ErrorCode.UNACCEPTABLE_CREDENTIAL, text)
