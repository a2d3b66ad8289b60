"""FetchSnapshot (59), versions 0-1: a replica of the metadata log reads a snapshot by position.

The replica of the metadata log answers (`kraft/`); the wire form is in `kraft/codec.py`.
"""

from typing import Final

from tidelog.broker.api import declaration
from tidelog.kraft.codec import SENT_VERSIONS
from tidelog.wire.api import ApiKey

API: Final = declaration.QuorumApi(
    key=ApiKey.FETCH_SNAPSHOT,
    doc=__doc__,
    versions=declaration.VersionRange(0, 1),
    sent_version=SENT_VERSIONS[ApiKey.FETCH_SNAPSHOT],
    request_of=declaration.request_of_entity,
    reply_of=declaration.reply_of_entity,
)
