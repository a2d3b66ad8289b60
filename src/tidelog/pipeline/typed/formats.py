"""What the bytes of a key or a value are. The command line imports it, so nothing heavy is here."""

from enum import StrEnum


class Format(StrEnum):
    """A format that the ingest parses."""

    RAW = "raw"
    STRING = "string"
    JSON = "json"
    CSV = "csv"

    @property
    def has_fields(self) -> bool:
        return self in (Format.JSON, Format.CSV)
