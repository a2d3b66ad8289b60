"""Requests with texts that our own writer refuses to write."""

from typing import Any, Final

from tidelog.wire import codec
from tidelog.wire.api import ApiKey, is_flexible
from tidelog.wire.notation import write_uvarint

MARK: Final = "\x01a long text\x01"
"""Stands for the text while the request is encoded."""


def encode_long_request(
    entity: Any, correlation_id: int, client_id: str | None, text: str
) -> bytes:
    """A framed request with the text for each `MARK`, in the notation of its version. In the
    classic one a length above 65,535 does not exist, and one above 32,767 is a negative one."""
    frame = codec.encode_request(entity, correlation_id, client_id)[4:]
    encoded = text.encode()
    if is_flexible(ApiKey(entity.__api_key__), entity.__version__):
        short, long = bytearray(), bytearray()
        write_uvarint(short, len(MARK) + 1)
        write_uvarint(long, len(encoded) + 1)
    else:
        short, long = (bytearray(len(each).to_bytes(2, "big")) for each in (MARK, encoded))
    frame = frame.replace(bytes(short) + MARK.encode(), bytes(long) + encoded)
    return len(frame).to_bytes(4, "big") + frame
