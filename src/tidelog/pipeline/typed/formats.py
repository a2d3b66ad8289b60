"""What the bytes of a key or a value are, and what a record is to the table. The command line
imports it, so nothing heavy is here."""

from enum import StrEnum


class Mode(StrEnum):
    """What a record does to the table."""

    APPEND = "append"
    UPSERT = "upsert"


class Format(StrEnum):
    """A format that the ingest parses."""

    RAW = "raw"
    STRING = "string"
    JSON = "json"
    CSV = "csv"
    AVRO = "avro"
    PROTOBUF = "protobuf"

    @property
    def has_fields(self) -> bool:
        return self not in (Format.RAW, Format.STRING)

    @property
    def is_decoded(self) -> bool:
        """Whether a library of the format decodes the values, by a schema in its own notation."""
        return self in (Format.AVRO, Format.PROTOBUF)
