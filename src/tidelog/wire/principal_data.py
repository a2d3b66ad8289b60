"""Who asked for a forwarded request, as an envelope carries it: a version, then the entity.

Source: KIP-590, KIP-684; Kafka's default principal serde.
"""

from typing import Final

from kio.schema.default_principal_data.v0.data import DefaultPrincipalData

from tidelog.errors import MalformedFrame
from tidelog.wire.entities import make
from tidelog.wire.schema import read_entity, write_entity

_VERSION: Final = b"\x00\x00"


def pack(principal_type: str, name: str, *, by_token: bool = False) -> bytes:
    """A principal, and whether a delegation token has proved it."""
    out = bytearray(_VERSION)
    entity = make(
        DefaultPrincipalData, type_=principal_type, name=name, token_authenticated=by_token
    )
    write_entity(out, entity)
    return bytes(out)


def parse(data: bytes) -> tuple[str, str, bool]:
    """Type, name, and whether a delegation token has proved them. Raises `MalformedFrame`, for
    versions that are not known, too."""
    if data[: len(_VERSION)] != _VERSION:
        raise MalformedFrame(f"a principal of version `{data[: len(_VERSION)].hex()}`")
    entity, end = read_entity(DefaultPrincipalData, data, len(_VERSION))
    if end != len(data):
        raise MalformedFrame(f"`{len(data) - end}` bytes behind a principal")
    return str(entity.type_), str(entity.name), bool(entity.token_authenticated)
