"""Values that every package uses: partitions, topic ids, endpoints, epochs and offsets.

Offsets here are plain integers, because they live on hot paths. Their names carry the meaning
(glossary in `ARCHITECTURE.md`): `log_end_offset`, `high_watermark` and `last_stable_offset` are
exclusive ends ("the next offset"), `base_offset` and `last_offset` are inclusive.

A topic id is the 16 raw bytes of a UUID (`TopicId`); its text form is Kafka's 22-character
URL-safe base64 without padding.
"""

import base64
import binascii
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple, NewType

TopicId = NewType("TopicId", bytes)
"""16 raw bytes. `ZERO_TOPIC_ID` means "no id"."""

Uuid = NewType("Uuid", bytes)
"""16 raw bytes of any other UUID: a directory id, an incarnation id."""

ZERO_UUID: Final = Uuid(bytes(16))
LOST_DIRECTORY: Final = Uuid(bytes(15) + b"\x01")
"""The directory of a replica whose log is gone (KIP-858)."""
RESERVED_DIRECTORY_IDS: Final = 100
"""Directory ids below this number have special meanings (KIP-858)."""
ZERO_TOPIC_ID: Final = TopicId(bytes(16))

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_TOPIC_ID: Final = TopicId(bytes(15) + b"\x01")
"""The fixed id of the metadata topic (KIP-595)."""

OFFSETS_TOPIC: Final = "__consumer_offsets"
"""Where group coordinators keep groups and committed offsets."""
TRANSACTIONS_TOPIC: Final = "__transaction_state"
"""Where transaction coordinators keep transactional ids and their transactions."""
SHARES_TOPIC: Final = "__share_group_state"
"""Where share coordinators keep what share groups have done with each partition."""
INTERNAL_TOPICS: Final = frozenset((OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARES_TOPIC))

NO_LEADER: Final = -1
NO_EPOCH: Final = -1
NO_OFFSET: Final = -1
NO_PRODUCER_ID: Final = -1
NO_TIMESTAMP: Final = -1

CONSUMER_REPLICA_ID: Final = -1
"""The replica id of an ordinary consumer in Fetch and ListOffsets."""


HIDDEN: Final = "[hidden]"
"""Stands where a secret would."""


class TopicPartition(NamedTuple):
    """One partition of a topic, by name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


METADATA_PARTITION: Final = TopicPartition(METADATA_TOPIC, 0)


class EpochEndOffset(NamedTuple):
    """Where a leader epoch ends in a log: `end_offset` is exclusive. (-1, -1) is "undefined"."""

    leader_epoch: int
    end_offset: int


UNDEFINED_EPOCH_END: Final = EpochEndOffset(NO_EPOCH, NO_OFFSET)


class SecurityProtocol(IntEnum):
    """How the bytes of a listener are protected and how its clients log in, in Kafka's numbers
    (KIP-103)."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def uses_tls(self) -> bool:
        """Whether TLS is around the bytes of a connection."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def uses_sasl(self) -> bool:
        """Whether a client logs in by SASL before its first request."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class Principal(NamedTuple):
    """To whom a connection belongs, as access control lists name it: `User:alice`."""

    principal_type: str
    name: str

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> "Principal":
        """A principal as records have it. Its name may have colons."""
        principal_type, _, name = text.partition(":")
        return cls(principal_type, name)


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""The client of a connection without authentication."""


class Mechanism(StrEnum):
    """The SASL mechanisms that are served, by their registered names."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A password or a key: it prints as `[hidden]`, so that no log line and no traceback has it."""

    _text: str = ""

    def reveal(self) -> str:
        """The text; only for the one who needs it, at the place where it is needed."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return HIDDEN


NO_SECRET: Final = Secret()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A named listener of a node and where it is reached."""

    listener: str
    host: str
    port: int
    security_protocol: int = 0
    """A `SecurityProtocol`; a record may have a number that this code does not know."""

    def __str__(self) -> str:
        return f"{self.listener}://{self.host}:{self.port}"


def uuid_to_text(value: bytes) -> str:
    """Kafka's text form of 16 bytes: URL-safe base64 without padding, 22 characters."""
    assert len(value) == 16, f"a uuid has 16 bytes, got {len(value)}"
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def uuid_from_text(text: str) -> Uuid:
    """The inverse of `uuid_to_text`.

    Raises `ValueError` when the text is not the base64 of 16 bytes.
    """
    try:
        value = base64.urlsafe_b64decode(text + "==")
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"`{text}` is not a base64 uuid") from error
    if len(value) != 16:
        raise ValueError(f"`{text}` is not a base64 uuid of 16 bytes")
    return Uuid(value)
