"""Vote (52), versions 0-2: a candidate asks a voter for its vote, or for its pre-vote.

The replica of the metadata log answers (`kraft/`); the wire form is in `kraft/codec.py`.
"""

from typing import Final

from tidelog.broker.api import declaration
from tidelog.kraft.codec import SENT_VERSIONS
from tidelog.wire.api import ApiKey

API: Final = declaration.QuorumApi(
    key=ApiKey.VOTE,
    doc=__doc__,
    versions=declaration.VersionRange(0, 2),
    sent_version=SENT_VERSIONS[ApiKey.VOTE],
    request_of=declaration.request_of_entity,
    reply_of=declaration.reply_of_entity,
)
