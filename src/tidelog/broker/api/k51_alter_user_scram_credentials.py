"""AlterUserScramCredentials (51), version 0, decided by the active controller.

The client salts the password itself and sends the result; the metadata log gets keys that are
derived from it, which are not enough to log in. A change counts for the next login at each node
that has applied it; sessions that began before go on.
"""

from typing import Final

from tidelog.broker.api.answers import Answer, answer, reply
from tidelog.broker.api.checks import cluster
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, ControllerApi, VersionRange
from tidelog.controller import messages
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.shapes import Rows, Shape

RESULT: Final[Answer[object, messages.AlterScramCredentialsResult]] = answer(
    messages.AlterScramCredentialsResult,
    users=Rows("results", Shape(messages.ScramResult, name="user")),
)


def refusal_of(response_type: type, request: Entity, refused: messages.Refused) -> Entity:
    """The reply with the code at each user."""
    names = [change.name for change in (*request.deletions, *request.upsertions)]
    code = {"error_code": refused.error_code, "error_message": refused.message}
    return reply(response_type, results=[{"user": name, **code} for name in dict.fromkeys(names)])


API: Final = ControllerApi(
    key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(0, 0),
    requires=(cluster(Operation.ALTER),),
    message=Shape(messages.AlterScramCredentials),
    result=RESULT,
    refusal_of=refusal_of,
)
